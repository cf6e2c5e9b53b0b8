// The checks that every strategy plugin must pass.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_CHECK_STRATEGY_H_
#define TESSERA_STRATEGIES_CONFORMANCE_CHECK_STRATEGY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "strategies/conformance/small_models.h"
#include "strategies/host/plugin.h"

namespace tessera {

struct StrategyChecks {
  std::vector<std::string> options;          // of the strategy, "name=value"
  std::vector<int> ranks = {1, 2, 3, 4, 8};  // threads of this process
  std::vector<std::string> models = ConformanceModels();
  int steps = 5;
  // Called before each check with a description of it; may be null.
  std::function<void(const std::string& what)> progress;
};

// Checks a strategy with these options on every model and number of ranks:
// - it makes the same Plan for the same request;
// - it trains as one process does: losses, gradients and parameters on the reference backend to
//   1e-10 of each tensor's norm, on the CPU backend to 1e-5 (a Plan that lowers the precision to
//   5e-2); some models in several micro-batches, as one process does with these and without them;
// - two runs, with other delays before collectives, give the same bits, and so do 2 processes over
//   shared memory and over TCP;
// - what the communicators count is what the Program declares and the strategy's estimate says, in
//   calls and in bytes;
// - the planned memory is used as planned, and is what the estimate says;
// - a memory limit that cannot be met is an error that names the smallest one that can;
// - a checkpoint of 2 ranks is continued by 3 ranks, by one process, and by data parallel and fully
//   sharded ranks, with the same loss; and one of fully sharded ranks by the strategy.
//
// A model and number of ranks that do not suit the options, for which the strategy returns
// InvalidArgument, are left out; some have to suit. Returns the first failure in one line: what was
// checked, on what, and what differs.
absl::Status CheckStrategy(const Plugin& plugin, const StrategyChecks& checks);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_CHECK_STRATEGY_H_
