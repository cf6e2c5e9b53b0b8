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
  // The bytes of an alternative that depend on the number of micro-batches in different ways.
  struct Parts {
    int64_t kept = 0;         // activations, of one micro-batch
    int64_t gradients = 0;    // as a rank holds them
    int64_t fixed_surge = 0;  // gathered parameters and full gradients
  };

  Settings settings;
  int64_t micro_batches = 1;
  search::Problem problem;
  std::vector<std::vector<Mode>> modes;  // of each unit's alternatives
  std::vector<std::vector<Parts>> parts;

  // Returns the modes of a solution's choices.
  std::vector<Mode> ModesOf(const std::vector<int>& choices) const;
  // Returns the alternatives that have these modes.
  std::vector<int> ChoicesOf(const std::vector<Mode>& wanted) const;
  // Returns about the model of a step in another number of micro-batches: computation and kept
  // activations in proportion to the rows of one.
  search::Problem ScaledTo(int64_t count) const;
};

// Returns the mode of each unit where all are in one mode, as far as they can be: parameters
// outside of blocks are not recomputed.
std::vector<Mode> ModesOfCorner(const std::vector<Unit>& units, Mode mode);

// The kinds of alternatives of a step model.
struct Alternatives {
  bool recomputed = false;
  bool slices = false;
};

// Lowers the Plans in which all units are in the same mode, and derives each unit's alternatives:
// computation and memory from the sections of these steps, communication from the host's prices.
// For these Plans the model's memory is that of the lowered ones. Recomputation is lowered for
// sharded units; in other modes it saves and costs the same. Modes whose Plans cannot be run are
// left out; it is an error if parameters cannot be sharded.
absl::StatusOr<StepModel> MakeStepModel(const Request& request, const ModelInfo& model,
                                        const std::vector<Unit>& units, const Settings& settings,
                                        const Alternatives& kinds, Host& host,
                                        Candidates& candidates);

}  // namespace tessera::strategy::osdp

#endif  // TESSERA_STRATEGIES_OSDP_STEP_MODEL_H_
