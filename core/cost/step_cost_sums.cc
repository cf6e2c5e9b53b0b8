// Combines the costs of several steps and ranks.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/step_cost.h"
#include "core/text/counted.h"

namespace tessera {
namespace {

StepCost::Collective& EntryOf(const StepCost::Collective& collective, StepCost* cost) {
  for (StepCost::Collective& known : *cost->mutable_collectives()) {
    if (known.operation() == collective.operation() &&
        absl::c_is_permutation(known.mesh_axes(), collective.mesh_axes())) {
      return known;
    }
  }
  StepCost::Collective& added = *cost->add_collectives();
  added.set_operation(collective.operation());
  *added.mutable_mesh_axes() = collective.mesh_axes();
  return added;
}

StepCost::Time& EntryOf(const StepCost::Time& time, StepCost* cost) {
  for (StepCost::Time& known : *cost->mutable_times()) {
    if (known.category() == time.category()) return known;
  }
  StepCost::Time& added = *cost->add_times();
  added.set_category(time.category());
  return added;
}

// Adds times multiplied by `share`.
void AddTimes(const StepCost& cost, double share, StepCost* sums) {
  sums->set_step_seconds(sums->step_seconds() + share * cost.step_seconds());
  sums->set_computation_seconds(sums->computation_seconds() + share * cost.computation_seconds());
  sums->set_exposed_seconds(sums->exposed_seconds() + share * cost.exposed_seconds());
  for (const StepCost::Time& time : cost.times()) {
    StepCost::Time& sum = EntryOf(time, sums);
    sum.set_seconds(sum.seconds() + share * time.seconds());
  }
  for (const StepCost::Collective& collective : cost.collectives()) {
    StepCost::Collective& sum = EntryOf(collective, sums);
    sum.set_seconds(sum.seconds() + share * collective.seconds());
    sum.set_exposed_seconds(sum.exposed_seconds() + share * collective.exposed_seconds());
  }
}

}  // namespace

std::string NameOf(const StepCost::Collective& collective) {
  return absl::StrCat(collective.operation(), " along ",
                      absl::StrJoin(collective.mesh_axes(), ", "));
}

void AddStep(const StepCost& step, StepCost* sums) {
  AddTimes(step, 1, sums);
  for (const StepCost::Collective& collective : step.collectives()) {
    StepCost::Collective& sum = EntryOf(collective, sums);
    sum.set_calls(sum.calls() + collective.calls());
    sum.set_bytes(sum.bytes() + collective.bytes());
  }
}

StepCost MergeRanks(absl::Span<const StepCost> sums_by_rank) {
  StepCost merged;
  for (const StepCost& sums : sums_by_rank) {
    AddTimes(sums, 1.0 / static_cast<double>(sums_by_rank.size()), &merged);
    for (const StepCost::Collective& collective : sums.collectives()) {
      StepCost::Collective& most = EntryOf(collective, &merged);
      most.set_calls(std::max(most.calls(), collective.calls()));
      most.set_bytes(std::max(most.bytes(), collective.bytes()));
    }
  }
  return merged;
}

StepCost PerStep(const StepCost& sums, int64_t steps) {
  StepCost mean;
  if (steps == 0) return mean;
  AddTimes(sums, 1.0 / static_cast<double>(steps), &mean);
  for (const StepCost::Collective& collective : sums.collectives()) {
    StepCost::Collective& entry = EntryOf(collective, &mean);
    entry.set_calls(collective.calls() / steps);
    entry.set_bytes(collective.bytes() / steps);
  }
  return mean;
}

absl::Status CompareCollectives(const StepCost& estimated, const StepCost& sums, int64_t steps) {
  StepCost all = estimated, counted = sums;
  for (const StepCost::Collective& collective : sums.collectives()) EntryOf(collective, &all);
  for (const StepCost::Collective& stated : all.collectives()) {
    const StepCost::Collective& ran = EntryOf(stated, &counted);
    if (ran.calls() == steps * stated.calls() && ran.bytes() == steps * stated.bytes()) continue;
    return absl::InternalError(
        absl::StrCat("the estimate of a step has ", stated.calls(), " calls of ", NameOf(stated),
                     " and ", stated.bytes(), " bytes, and in ", Counted(steps, "step"), " ",
                     ran.calls(), " calls and ", ran.bytes(), " bytes were counted"));
  }
  return absl::OkStatus();
}

}  // namespace tessera
