#include "strategies/osdp/lowered.h"

#include <utility>

namespace tessera::strategy::osdp {

absl::StatusOr<const Candidate*> Candidates::Lower(const std::vector<Mode>& modes,
                                                   const Settings& settings, bool sections) {
  for (const Candidate& known : candidates_) {
    if (known.modes == modes && known.settings == settings) return &known;
  }
  Candidate candidate = {modes, settings, PlanOf(model_, units_, modes, settings), {}, {}};
  LowerPlans request;
  *request.add_plans() = candidate.plan;
  request.set_sections(sections);
  ASSIGN_OR_RETURN(const LoweredPlans lowered, host_.Lower(request));
  if (!lowered.plans(0).error().empty()) {
    return absl::InvalidArgumentError(lowered.plans(0).error());
  }
  candidate.cost = lowered.plans(0).cost();
  candidate.sections.assign(lowered.plans(0).sections().begin(), lowered.plans(0).sections().end());
  candidates_.push_back(std::move(candidate));
  return &candidates_.back();
}

const Candidate* Candidates::Fastest(int64_t limit) const {
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (limit > 0 && candidate.cost.peak_bytes() > limit) continue;
    if (best == nullptr || candidate.cost.step_seconds() < best->cost.step_seconds()) {
      best = &candidate;
    }
  }
  return best;
}

const Candidate* Candidates::Smallest() const {
  const Candidate* smallest = nullptr;
  for (const Candidate& candidate : candidates_) {
    if (smallest == nullptr || candidate.cost.peak_bytes() < smallest->cost.peak_bytes()) {
      smallest = &candidate;
    }
  }
  return smallest;
}

}  // namespace tessera::strategy::osdp
