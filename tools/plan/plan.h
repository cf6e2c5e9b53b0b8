// The commands of the tool that plans without ranks.
#ifndef TESSERA_TOOLS_PLAN_PLAN_H_
#define TESSERA_TOOLS_PLAN_PLAN_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/plan/flags.h"

namespace tessera {

// Runs the command, and prints its result. Returns the exit code. An interrupt ends it with what is
// finished. `typed` is what the user typed, for the report.
absl::StatusOr<int> RunPlanCommand(const PlanCommandLine& line, const std::string& typed);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_PLAN_H_
