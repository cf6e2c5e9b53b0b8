// For tests: reads and completes Plans, and prints the lines of them that a test compares.
#ifndef TESSERA_CORE_PLAN_TESTING_COMPLETION_H_
#define TESSERA_CORE_PLAN_TESTING_COMPLETION_H_

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/plan/complete.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tessera {

inline Plan ParsePlan(const std::string& text) {
  Plan plan;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &plan)) << text;
  return plan;
}

// `path` is relative to the root of the repository.
inline Plan ReadPlanFile(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return ParsePlan(text.str());
}

inline Plan Completed(const Plan& plan, const std::vector<Graph>& graphs, int ranks) {
  auto completed = CompletePlan(plan, graphs, ranks);
  EXPECT_TRUE(completed.ok()) << completed.status();
  return completed.ok() ? *std::move(completed) : Plan();
}

// Returns "path: signature" of each operator of part `i` whose path contains one of `words`.
inline std::string OperatorLines(const Plan& plan, int i, const std::vector<std::string>& words) {
  std::string lines;
  for (const ComputeChoice& choice : plan.stages(0).parts(i).compute()) {
    const bool listed = absl::c_any_of(
        words, [&](const std::string& word) { return absl::StrContains(choice.path(), word); });
    if (listed) absl::StrAppend(&lines, choice.path(), ": ", choice.signature(), "\n");
  }
  return lines;
}

// Returns "path: layout" of each store whose path contains `word`, if the layout is not B.
inline std::string StoreLines(const Plan& plan, const std::string& word) {
  std::string lines;
  for (const StoreChoice& choice : plan.stages(0).store()) {
    if (choice.layout() == "B" || !absl::StrContains(choice.path(), word)) continue;
    absl::StrAppend(&lines, choice.path(), ": ", choice.layout(), "\n");
  }
  return lines;
}

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_TESTING_COMPLETION_H_
