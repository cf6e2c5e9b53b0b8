// A Plan to try, with the model and the number of ranks that it is tried on.
#ifndef TESSERA_TESTS_PLANS_RANDOM_PLAN_CASE_H_
#define TESSERA_TESTS_PLANS_RANDOM_PLAN_CASE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/plan.pb.h"

namespace tessera {

struct PlanCase {
  std::string model;
  int ranks = 1;
  Plan plan;  // with one stage

  const Stage& stage() const { return plan.stages(0); }
  Stage& stage() { return *plan.mutable_stages(0); }
  // Returns one line: "gpt 4 stages { mesh { name: \"a\" size: 4 } }".
  std::string ToString() const;
};

// Parses what ToString returns. InvalidArgument says what does not fit.
absl::StatusOr<PlanCase> ParsePlanCase(absl::string_view text);

// Reads a file with a line for each Plan. Empty lines and those that begin with "#" are skipped.
absl::StatusOr<std::vector<PlanCase>> ReadPlanCases(const std::string& path);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_PLAN_CASE_H_
