// Compares strategies by what is predicted of them: --plan_only.
#ifndef TESSERA_TOOLS_COMPARE_PLANS_H_
#define TESSERA_TOOLS_COMPARE_PLANS_H_

#include "absl/status/statusor.h"
#include "tools/compare/flags.h"

namespace tessera {

// Plans every strategy for the ranks of the command line, of which none is started, and prints the
// predicted columns of the table. Returns the exit code. An interrupt ends it with what is
// finished.
absl::StatusOr<int> ComparePlans(const CompareCommandLine& line);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_PLANS_H_
