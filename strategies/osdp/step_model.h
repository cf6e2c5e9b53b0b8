// A model of the step's time and memory, for the search, from Plans that were lowered.
#ifndef TESSERA_STRATEGIES_OSDP_STEP_MODEL_H_
#define TESSERA_STRATEGIES_OSDP_STEP_MODEL_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "strategies/api/search/search.h"
#include "strategies/osdp/lowered.h"

namespace tessera::strategy::osdp {

// The alternatives of each unit under the same settings. The last unit of the problem is the work
// behind the blocks, which has no parameters and one alternative.
struct StepModel {
  Settings settings;
  search::Problem problem;
  std::vector<std::vector<Mode>> modes;  // of each unit's alternatives

  // Returns the modes of a solution's choices.
  std::vector<Mode> ModesOf(const std::vector<int>& choices) const;
  // Returns the alternatives that have these modes.
  std::vector<int> ChoicesOf(const std::vector<Mode>& wanted) const;
};

// Lowers the Plans in which all units are in the same mode, and derives each unit's alternatives:
// computation and memory from the sections of these steps, communication from the host's prices.
// For these Plans the model's memory is that of the lowered ones. Units that are recomputed are
// alternatives if `recomputes`. Modes whose Plans cannot be run are left out; it is an error if none
// can.
absl::StatusOr<StepModel> MakeStepModel(const Request& request, const ModelInfo& model,
                                        const std::vector<Unit>& units, const Settings& settings,
                                        bool recomputes, Host& host, Candidates& candidates);

}  // namespace tessera::strategy::osdp

#endif  // TESSERA_STRATEGIES_OSDP_STEP_MODEL_H_
