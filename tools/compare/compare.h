// Compares strategies on the ranks of a job.
#ifndef TESSERA_TOOLS_COMPARE_COMPARE_H_
#define TESSERA_TOOLS_COMPARE_COMPARE_H_

#include <string>

#include "absl/status/statusor.h"
#include "tools/compare/flags.h"
#include "tools/train/rank/job.h"

namespace tessera {

// Runs the comparison on this rank, together with the others, and prints the table on rank 0, which
// also writes the file of --json. Returns the exit code: 128 + the signal that has stopped it; on
// rank 0, else 3 if a strategy trains differently, 2 if one did not run or if its communication
// differs from the estimate; else 0.
absl::StatusOr<int> CompareOnRank(const CompareCommandLine& line, Job& job);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARE_H_
