// The checks that every strategy plugin must pass.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_CHECK_STRATEGY_H_
#define TESSERA_STRATEGIES_CONFORMANCE_CHECK_STRATEGY_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "strategies/conformance/known_models.h"
#include "strategies/conformance/small_models.h"
#include "strategies/host/plugin.h"

namespace tessera {

struct StrategyChecks {
  std::vector<std::string> options;                   // of the strategy, "name=value"
  std::vector<int> ranks = {1, 2, 3, 4, 5, 6, 7, 8};  // threads of this process
  std::vector<std::string> models = ConformanceModels();
  int steps = 5;
  // Called before each check with a description of it; may be null.
  std::function<void(const std::string& what)> progress;
};

// Checks a strategy with these options on every model and number of ranks:
// - it makes the same Plan, Programs and estimate for the same request, whatever the variables say
//   by which launchers report a rank, and (on the first model) in another second;
// - it trains as one process does: losses, gradients and parameters on the reference backend to
//   1e-10 of each tensor's norm, on the CPU backend to 1e-5 (a Plan that lowers the precision to
//   5e-2, or 0.25 if values jump); some models in several micro-batches, compared with one process
//   with and without them; and then it evaluates and generates as one process does;
// - two runs with different delays before collectives give the same bits; 2 processes over shared
//   memory and over TCP also give these bits;
// - the communicators count the calls and bytes that the Program declares and the strategy
//   estimates, along each axis;
// - a step uses memory as planned, and the planned memory equals the estimate, in each category;
//   no step is estimated to take less than its computation does at the host's prices;
// - a memory limit that cannot be met is an error that names the smallest limit that can be met;
// - a checkpoint of 2 ranks is continued by 3 ranks, by one process, and by data parallel and fully
//   sharded ranks, with the same loss; a checkpoint of fully sharded ranks is continued by the
//   strategy.
//
// Skips a model and number of ranks for which the strategy refuses the options (InvalidArgument),
// but at least one must be accepted. Returns the first failure in one line: the check, its model
// and ranks, and the difference. `models` may be of earlier calls.
absl::Status CheckStrategy(const Plugin& plugin, const StrategyChecks& checks, KnownModels& models);

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_CHECK_STRATEGY_H_
