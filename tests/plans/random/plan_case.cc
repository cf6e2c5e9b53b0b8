#include "tests/plans/random/plan_case.h"

#include <fstream>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"

namespace tessera {

std::string PlanCase::ToString() const {
  return absl::StrCat(model, " ", ranks, " ", plan.ShortDebugString());
}

absl::StatusOr<PlanCase> ParsePlanCase(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits(' ', 2));
  PlanCase parsed;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &parsed.ranks) || parsed.ranks < 1) {
    return absl::InvalidArgumentError("a case is MODEL RANKS PLAN, as in: gpt 4 stages { ... }");
  }
  parsed.model = parts[0];
  if (!google::protobuf::TextFormat::ParseFromString(parts[2], &parsed.plan)) {
    return absl::InvalidArgumentError("the Plan is no text of core/proto/plan.proto");
  }
  if (parsed.plan.stages_size() != 1) {
    return absl::InvalidArgumentError("the Plan has not exactly one stage");
  }
  return parsed;
}

absl::StatusOr<std::vector<PlanCase>> ReadPlanCases(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::vector<PlanCase> cases;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    absl::StripAsciiWhitespace(&line);
    if (line.empty() || line[0] == '#') continue;
    const auto parsed = ParsePlanCase(line);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", parsed.status().message()));
    }
    cases.push_back(*parsed);
  }
  return cases;
}

}  // namespace tessera
