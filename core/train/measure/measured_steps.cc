#include "core/train/measure/measured_steps.h"

#include <algorithm>

#include "core/cost/step_cost_sums.h"
#include "core/ids/table.h"
#include "core/tensor/collective.h"

namespace tessera {

Table<InstructionId, TimeSpan> ToTimeSpans(const Table<InstructionId, InstructionTime>& times,
                                           int64_t begin_ns) {
  Table<InstructionId, TimeSpan> spans;
  spans.reserve(times.size());
  const auto seconds = [begin_ns](int64_t ns) { return 1e-9 * static_cast<double>(ns - begin_ns); };
  for (const InstructionTime& time : times) {
    spans.push_back({seconds(time.begin_ns), seconds(time.end_ns)});
  }
  return spans;
}

void MeasuredSteps::BeforeStep() {
  if (collectives_ != nullptr) counted_ = collectives_->Counts();
}

StepCost MeasuredSteps::AfterStep() {
  const int64_t begin_ns = executor_.step_begin_ns();
  StepCost step = CostOfTimes(executor_.program(), ToTimeSpans(executor_.times(), begin_ns));
  step.set_step_seconds(1e-9 * static_cast<double>(executor_.step_end_ns() - begin_ns));
  // Calls are taken from the communicators' counts, not from the Program.
  for (StepCost::Collective& collective : *step.mutable_collectives()) collective.set_calls(0);
  const std::vector<CollectiveCount> counts =
      collectives_ == nullptr ? std::vector<CollectiveCount>() : collectives_->Counts();
  for (const CollectiveCount& count : counts) {
    const auto before =
        std::find_if(counted_.begin(), counted_.end(), [&count](const CollectiveCount& earlier) {
          return earlier.operation == count.operation && earlier.mesh_axes == count.mesh_axes;
        });
    const bool is_new = before == counted_.end();
    const int64_t calls = count.calls - (is_new ? 0 : before->calls);
    if (calls == 0) continue;
    StepCost::Collective& collective = *step.mutable_collectives(
        FindOrAddCollective(CollectiveOperationName(count.operation), count.mesh_axes, &step));
    collective.set_calls(calls);
    collective.set_bytes(count.bytes_sent - (is_new ? 0 : before->bytes_sent));
  }
  AddStep(step, &sums_);
  ++steps_;
  return step;
}

}  // namespace tessera
