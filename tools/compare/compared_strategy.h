// A strategy that is compared, on one rank.
#ifndef TESSERA_TOOLS_COMPARE_COMPARED_STRATEGY_H_
#define TESSERA_TOOLS_COMPARE_COMPARED_STRATEGY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/measure/step_timer.h"
#include "tools/compare/comparison.h"
#include "tools/train/job/stop_request.h"
#include "tools/train/setup/setup.h"

namespace tessera {

// Every rank has one for each strategy, and calls the same methods in the same order. Errors name
// the strategy. Not thread-safe.
class ComparedStrategy {
 public:
  // `setup` is of PrepareRun.
  ComparedStrategy(std::string label, Setup setup);

  const std::string& label() const { return result_.label; }
  const Setup& setup() const { return setup_; }
  // Returns the bytes of a rank's arenas and of its state, of which Run temporarily keeps a copy.
  int64_t arena_bytes() const { return arena_bytes_; }
  int64_t state_bytes() const { return state_bytes_; }

  // Collective. Allocates the memory, initialises the state, and runs the first step, which is not
  // timed.
  absl::Status Begin();
  // Collective. Runs timed steps, and then the computation and the communication of some of them
  // alone, which leaves the state unchanged. Ends early if `stop` has a signal.
  absl::Status Run(int64_t steps, StopRequest& stop);
  // Collective. Frees the memory.
  void End() { timer_.reset(); }
  // Collective. Returns the result of all ranks, after End.
  absl::StatusOr<StrategyResult> Result();

  // The median of the timed steps so far, and the loss of the last one.
  double median_seconds() const { return Quantile(result_.step_seconds, 0.5); }
  double last_loss() const { return result_.last_loss; }
  // This rank's results so far.
  const StrategyResult& result() const { return result_; }

 private:
  absl::Status RunSteps(int64_t steps, StopRequest& stop);
  absl::Status RunPartsAlone(int64_t steps, StopRequest& stop);

  Setup setup_;
  int64_t arena_bytes_, state_bytes_;
  std::unique_ptr<StepTimer> timer_;
  StepCost sums_;          // calls and bytes of this rank in all timed steps
  StrategyResult result_;  // of this rank, without `counted`
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_COMPARED_STRATEGY_H_
