// The texts of explain and costs, at most 80 columns wide as far as paths allow.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_PLAN_EXPLANATION_H_
#define TESSERA_TOOLS_PLAN_EXPLANATION_H_

#include <optional>
#include <string>
#include <vector>

#include "tools/plan/changes.h"
#include "tools/plan/figures.h"
#include "tools/plan/step_profile.h"

namespace tessera {

// Returns where the time of a step goes: by layer, by operation, by the dearest instructions, and
// by what collectives wait for; the strategy's reasons for its Plan; and what changes would bring.
std::string Explanation(const Figures& figures, const StepProfile& profile,
                        const std::optional<std::vector<Change>>& changes);

// Returns the price of every kernel and collective request of a step, with its source.
std::string PriceTable(const Figures& figures, const StepProfile& profile);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_EXPLANATION_H_
