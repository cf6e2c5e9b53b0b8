#include "tools/compare/compared_strategy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/cost/step_cost.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "tools/compare/strategy_entry.h"

namespace tessera {
namespace {

// Steps without communication in each round: enough for a median, whose spread is small.
constexpr int64_t kMostComputations = 3;

StepCost::Collective& Find(const CollectiveCount& count, StepCost* cost) {
  for (StepCost::Collective& each : *cost->mutable_collectives()) {
    const std::vector<std::string> axes(each.mesh_axes().begin(), each.mesh_axes().end());
    if (each.operation() == CollectiveOperationName(count.operation) && axes == count.mesh_axes) {
      return each;
    }
  }
  StepCost::Collective& added = *cost->add_collectives();
  added.set_operation(std::string(CollectiveOperationName(count.operation)));
  for (const std::string& axis : count.mesh_axes) added.add_mesh_axes(axis);
  return added;
}

// Adds `sign` times the counts to the calls and bytes of `cost`.
void AddCounts(const std::vector<CollectiveCount>& counts, int sign, StepCost* cost) {
  for (const CollectiveCount& count : counts) {
    StepCost::Collective& sum = Find(count, cost);
    sum.set_calls(sum.calls() + sign * count.calls);
    sum.set_bytes(sum.bytes() + sign * count.bytes_sent);
  }
}

// Returns calls and bytes of one of `steps` steps, without collectives that were not called.
StepCost CountsPerStep(const StepCost& sums, int64_t steps) {
  StepCost mean;
  mean.set_peak_bytes(sums.peak_bytes());
  for (const StepCost::Collective& sum : sums.collectives()) {
    if (sum.calls() == 0) continue;
    StepCost::Collective& each = *mean.add_collectives() = sum;
    each.set_calls(sum.calls() / steps);
    each.set_bytes(sum.bytes() / steps);
  }
  return mean;
}

// Makes each number of `most` the larger one of both; all ranks have the same collectives, in the
// same order.
void TakeLarger(const StepCost& other, StepCost* most) {
  most->set_peak_bytes(std::max(most->peak_bytes(), other.peak_bytes()));
  for (int i = 0; i < std::min(most->collectives_size(), other.collectives_size()); ++i) {
    StepCost::Collective& each = *most->mutable_collectives(i);
    each.set_calls(std::max(each.calls(), other.collectives(i).calls()));
    each.set_bytes(std::max(each.bytes(), other.collectives(i).bytes()));
  }
}

}  // namespace

ComparedStrategy::ComparedStrategy(std::string label, Setup setup)
    : setup_(std::move(setup)),
      arena_bytes_(setup_.compiled.arena_bytes()),
      state_bytes_(setup_.compiled.state_bytes) {
  result_.label = std::move(label);
  result_.counted.set_peak_bytes(arena_bytes_);
  if (setup_.site.size() > 0) {
    result_.estimated =
        EstimateStep(*setup_.compiled.FindProgram(kTrain), setup_.cluster, setup_.site);
  }
}

absl::Status ComparedStrategy::Begin() {
  const TimedRun run = {setup_.config, setup_.model.get(), setup_.dataset.get()};
  absl::StatusOr<std::unique_ptr<StepTimer>> timer =
      StepTimer::Create(run, std::move(setup_.compiled), setup_.backend.get(), setup_.ranks.ranks);
  RETURN_IF_ERROR(NamedStatus(label(), timer.status()));
  timer_ = *std::move(timer);
  StepResult first;
  RETURN_IF_ERROR(NamedStatus(label(), timer_->Step(&first).status()));
  result_.first_loss = first.loss;
  return absl::OkStatus();
}

absl::Status ComparedStrategy::RunSteps(int64_t steps, StopRequest& stop) {
  AddCounts(timer_->Counts(), -1, &result_.counted);
  for (int64_t i = 0; i < steps && stop.signal() == 0; ++i) {
    StepResult step;
    ASSIGN_OR_RETURN(const double seconds, timer_->Step(&step));
    result_.step_seconds.push_back(seconds);
    result_.last_loss = step.loss;
    result_.last_step = step.step;
    if (!step.finite) {
      return Agreed(absl::InvalidArgumentError(absl::StrCat(
          "the loss or a gradient of step ", step.step, " is not finite: choose a smaller --lr")));
    }
    RETURN_IF_ERROR(stop.Agree());
  }
  AddCounts(timer_->Counts(), 1, &result_.counted);
  return absl::OkStatus();
}

absl::Status ComparedStrategy::RunComputations(int64_t steps, StopRequest& stop) {
  RETURN_IF_ERROR(timer_->SetStateAside());
  for (int64_t i = 0; i < steps && stop.signal() == 0; ++i) {
    ASSIGN_OR_RETURN(const double seconds, timer_->Computation());
    result_.computation_seconds.push_back(seconds);
    RETURN_IF_ERROR(stop.Agree());
  }
  return timer_->PutStateBack();
}

absl::Status ComparedStrategy::Run(int64_t steps, StopRequest& stop) {
  RETURN_IF_ERROR(NamedStatus(label(), RunSteps(steps, stop)));
  return NamedStatus(label(), RunComputations(std::min(steps, kMostComputations), stop));
}

absl::StatusOr<StrategyResult> ComparedStrategy::Result() {
  StrategyResult result = result_;
  const int64_t steps = static_cast<int64_t>(result.step_seconds.size());
  result.counted = CountsPerStep(result_.counted, steps);
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   setup_.ranks.ranks->Gather(result.counted.SerializeAsString()));
  for (const std::string& bytes : all) {
    StepCost other;
    if (!other.ParseFromString(bytes))
      return absl::InternalError("a rank has sent a malformed cost");
    TakeLarger(other, &result.counted);
  }
  return result;
}

}  // namespace tessera
