// Prepares the strategies of a comparison: everything before the timed rounds.
#ifndef TESSERA_TOOLS_COMPARE_PREPARATION_H_
#define TESSERA_TOOLS_COMPARE_PREPARATION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/compare/compared_strategy.h"
#include "tools/compare/flags.h"
#include "tools/compare/same_training.h"
#include "tools/train/rank/stop_request.h"
#include "tools/train/setup/configure.h"

namespace tessera {

using Strategies = std::vector<std::unique_ptr<ComparedStrategy>>;

// All functions are collective. Errors are agreed ones, or the ranks cannot go on.

// Configures a training run for each strategy. Returns an error of the command line or its files, a
// strategy that cannot be found, or an option that it does not have.
absl::StatusOr<Strategies> ConfigureAll(const CompareCommandLine& line, const RunRanks& ranks);

// Plans and compiles the strategies. Excludes those that fail, or that fit neither the memory limit
// nor the memory of a host. `line` has an entry for each strategy; that with a limit between the
// peaks of the first two gets it. With --report, rank 0's results get views for it.
absl::Status CompileAll(const CompareCommandLine& line, const Strategies& strategies,
                        const RunRanks& ranks);

// Runs the training of each strategy's check, one after the other, and excludes the strategies that
// train differently from others of the same batch. Ends early if `stop` has a signal.
absl::Status CheckAll(const Strategies& strategies, StopRequest& stop);

// Excludes the strategies in which the verdict on them finds a fault. Not collective.
void Judge(const std::vector<ComparedStrategy*>& strategies, const Verdict& verdict);

// Returns whether the strategies that are still compared fit in memory together, on every host.
// Prints a note if they do not.
absl::StatusOr<bool> FitTogether(const Strategies& strategies, const RunRanks& ranks);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_PREPARATION_H_
