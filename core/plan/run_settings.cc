#include "core/plan/run_settings.h"

#include <algorithm>
#include <utility>

namespace tessera {

bool StatesRecomputation(const PlanPart& part) {
  return part.recompute_size() > 0 || !part.fingerprint().empty();
}

void FillInSettings(const Plan& settings, Plan& plan) {
  if (settings.stages_size() == 0) return;
  Stage& stage = plan.stages_size() > 0 ? *plan.mutable_stages(0) : *plan.add_stages();
  for (const PlanPart& set : settings.stages(0).parts()) {
    const auto part =
        std::find_if(stage.mutable_parts()->begin(), stage.mutable_parts()->end(),
                     [&](const PlanPart& other) { return other.graph() == set.graph(); });
    if (part == stage.mutable_parts()->end()) {
      *stage.add_parts() = set;
      continue;
    }
    if (part->micro_batches() == 0) part->set_micro_batches(set.micro_batches());
    if (!StatesRecomputation(*part)) *part->mutable_recompute() = set.recompute();
  }
  if (!settings.stages(0).has_precision()) return;
  PrecisionChoice precision = settings.stages(0).precision();
  // Fields that the Plan states override those of the run's settings.
  precision.MergeFrom(stage.precision());
  *stage.mutable_precision() = std::move(precision);
}

}  // namespace tessera
