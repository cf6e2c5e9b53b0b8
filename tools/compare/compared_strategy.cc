#include "tools/compare/compared_strategy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/cost/step_cost.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "tools/compare/strategy_entry.h"

namespace tessera {
namespace {

// How often computation and communication run alone in each round: enough for a median, whose
// spread is small.
constexpr int64_t kMostAlone = 3;

// Adds `sign` times the counts to the calls and bytes of `sums`.
void AddCounts(const std::vector<CollectiveCount>& counts, int sign, StepCost* sums) {
  for (const CollectiveCount& count : counts) {
    StepCost::Collective& sum = *sums->mutable_collectives(
        static_cast<int>(FindCollective(count.operation, count.mesh_axes, sums)));
    sum.set_calls(sum.calls() + sign * count.calls);
    sum.set_bytes(sum.bytes() + sign * count.bytes_sent);
  }
}

// Removes collectives that only the initialisation has called, and no step.
void RemoveUncalled(StepCost* cost) {
  StepCost called = *cost;
  called.clear_collectives();
  for (const StepCost::Collective& each : cost->collectives()) {
    if (each.calls() > 0) *called.add_collectives() = each;
  }
  *cost = called;
}

}  // namespace

ComparedStrategy::ComparedStrategy(std::string label, Setup setup)
    : setup_(std::move(setup)),
      arena_bytes_(setup_.compiled.arena_bytes()),
      state_bytes_(setup_.compiled.state_bytes) {
  result_.label = std::move(label);
  result_.estimated = setup_.estimated;
  const std::string& dtype = setup_.compiled.plan.stages(0).precision().parameters();
  result_.lowered = !dtype.empty() && dtype != "f32";
}

absl::Status ComparedStrategy::Begin() {
  const TimedRun run = {setup_.config, setup_.model.get(), setup_.dataset.get()};
  absl::StatusOr<std::unique_ptr<StepTimer>> timer =
      StepTimer::Create(run, std::move(setup_.compiled), setup_.backend.get(), setup_.ranks.ranks);
  RETURN_IF_ERROR(NamedStatus(label(), timer.status()));
  timer_ = *std::move(timer);
  const absl::StatusOr<StepResult> first = timer_->RecordStep();
  RETURN_IF_ERROR(NamedStatus(label(), first.status()));
  result_.first_loss = first->loss;
  return absl::OkStatus();
}

absl::Status ComparedStrategy::RunSteps(int64_t steps, StopRequest& stop) {
  AddCounts(timer_->Counts(), -1, &sums_);
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
  AddCounts(timer_->Counts(), 1, &sums_);
  return absl::OkStatus();
}

absl::Status ComparedStrategy::RunPartsAlone(int64_t steps, StopRequest& stop) {
  RETURN_IF_ERROR(timer_->SetStateAside());
  for (int64_t i = 0; i < steps && stop.signal() == 0; ++i) {
    ASSIGN_OR_RETURN(const double computation, timer_->Computation());
    ASSIGN_OR_RETURN(const double communication, timer_->Communication());
    result_.computation_seconds.push_back(computation);
    result_.communication_seconds.push_back(communication);
    RETURN_IF_ERROR(stop.Agree());
  }
  return timer_->PutStateBack();
}

absl::Status ComparedStrategy::Run(int64_t steps, StopRequest& stop) {
  RETURN_IF_ERROR(NamedStatus(label(), RunSteps(steps, stop)));
  return NamedStatus(label(), RunPartsAlone(std::min(steps, kMostAlone), stop));
}

absl::StatusOr<StrategyResult> ComparedStrategy::Result() {
  ASSIGN_OR_RETURN(const std::vector<std::string> all,
                   setup_.ranks.ranks->Gather(sums_.SerializeAsString()));
  std::vector<StepCost> sums(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (sums[rank].ParseFromString(all[rank])) continue;
    return absl::InternalError(absl::StrCat("rank ", rank, " has sent a malformed cost"));
  }
  const StepCost merged = MergeRanks(sums);
  const int64_t steps = static_cast<int64_t>(result_.step_seconds.size());
  StrategyResult result = result_;
  result.counted = PerStep(merged, steps);
  result.counted.set_peak_bytes(arena_bytes_);
  RemoveUncalled(&result.counted);
  if (setup_.site.size() > 0) {
    result.same_collectives =
        NamedStatus(label(), CompareCollectives(result.estimated, merged, steps));
  }
  return result;
}

}  // namespace tessera
