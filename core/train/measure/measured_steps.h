// The cost of training steps that ran on this rank.
#ifndef TESSERA_CORE_TRAIN_MEASURE_MEASURED_STEPS_H_
#define TESSERA_CORE_TRAIN_MEASURE_MEASURED_STEPS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/cost/step_cost.h"
#include "core/cost/step_time.h"
#include "core/ids/table.h"
#include "core/proto/estimate.pb.h"
#include "core/runtime/collectives.h"
#include "core/runtime/executor.h"

namespace tessera {

// Returns the times in seconds since `begin_ns`.
Table<InstructionId, TimeSpan> ToTimeSpans(const Table<InstructionId, InstructionTime>& times,
                                           int64_t begin_ns);

// Sums the measured cost of steps. Times are the executor's. The executor sees the end of a
// collective only when it waits for the result, so a collective may have ended earlier than its
// time says. Calls and bytes are those that the communicators counted.
//
// Not thread-safe. The executor and the collectives must outlive it.
class MeasuredSteps {
 public:
  // `collectives` may be null for one rank.
  MeasuredSteps(const Executor* executor, const Collectives* collectives)
      : executor_(*executor), collectives_(collectives) {}

  // Call these before and after a step that the executor times (RunTimed). The second one returns
  // the step's cost, without memory.
  void BeforeStep();
  StepCost AfterStep();

  int64_t steps() const { return steps_; }
  // The sums over all steps so far.
  const StepCost& sums() const { return sums_; }

 private:
  const Executor& executor_;
  const Collectives* const collectives_;
  std::vector<CollectiveCount> counted_;  // before the step
  int64_t steps_ = 0;
  StepCost sums_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_MEASURE_MEASURED_STEPS_H_
