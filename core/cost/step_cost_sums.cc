#include "core/cost/step_cost_sums.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/cost/step_cost.h"
#include "core/text/counted.h"

namespace tessera {
namespace {

// Returns the entry of the same operation along the same axes. Adds one if there is none.
StepCost::Collective& FindOrAdd(const StepCost::Collective& collective, StepCost* cost) {
  const std::vector<std::string> axes(collective.mesh_axes().begin(), collective.mesh_axes().end());
  return *cost->mutable_collectives(FindOrAddCollective(collective.operation(), axes, cost));
}

// Returns the entry of the same category. Adds one if there is none.
StepCost::Time& FindOrAdd(const StepCost::Time& time, StepCost* cost) {
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
    StepCost::Time& sum = FindOrAdd(time, sums);
    sum.set_seconds(sum.seconds() + share * time.seconds());
  }
  for (const StepCost::Collective& collective : cost.collectives()) {
    StepCost::Collective& sum = FindOrAdd(collective, sums);
    sum.set_seconds(sum.seconds() + share * collective.seconds());
    sum.set_exposed_seconds(sum.exposed_seconds() + share * collective.exposed_seconds());
  }
}

}  // namespace

void AddStep(const StepCost& step, StepCost* sums) {
  AddTimes(step, 1, sums);
  for (const StepCost::Collective& collective : step.collectives()) {
    StepCost::Collective& sum = FindOrAdd(collective, sums);
    sum.set_calls(sum.calls() + collective.calls());
    sum.set_bytes(sum.bytes() + collective.bytes());
  }
}

StepCost MergeRanks(absl::Span<const StepCost> sums_by_rank) {
  StepCost merged;
  for (const StepCost& sums : sums_by_rank) {
    AddTimes(sums, 1.0 / static_cast<double>(sums_by_rank.size()), &merged);
    for (const StepCost::Collective& collective : sums.collectives()) {
      StepCost::Collective& most = FindOrAdd(collective, &merged);
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
    StepCost::Collective& entry = FindOrAdd(collective, &mean);
    entry.set_calls(collective.calls() / steps);
    entry.set_bytes(collective.bytes() / steps);
  }
  return mean;
}

absl::Status CompareCollectives(const StepCost& estimated, const StepCost& sums, int64_t steps) {
  StepCost all = estimated, counted = sums;
  for (const StepCost::Collective& collective : sums.collectives()) FindOrAdd(collective, &all);
  for (const StepCost::Collective& stated : all.collectives()) {
    const StepCost::Collective& ran = FindOrAdd(stated, &counted);
    if (ran.calls() == steps * stated.calls() && ran.bytes() == steps * stated.bytes()) continue;
    return absl::InternalError(
        absl::StrCat("the estimate of a step has ", stated.calls(), " calls of ", NameOf(stated),
                     " and ", stated.bytes(), " bytes, and in ", Counted(steps, "step"), " ",
                     ran.calls(), " calls and ", ran.bytes(), " bytes were counted"));
  }
  return absl::OkStatus();
}

}  // namespace tessera
