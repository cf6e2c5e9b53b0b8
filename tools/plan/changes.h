// Predicts the cost of a step with one of its settings changed.
#ifndef TESSERA_TOOLS_PLAN_CHANGES_H_
#define TESSERA_TOOLS_PLAN_CHANGES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/model.h"
#include "tools/plan/cell.h"
#include "tools/plan/figures.h"
#include "tools/plan/fit.h"

namespace tessera {

struct Change {
  std::string setting;  // as the user writes it: "--micro_batches=2", "fsdp:reshard=no"
  Figures figures;
};

// Plans the step with each of these changed: twice and half as many micro-batches, recomputation,
// and every other value of the strategy's options that are choices or bools. What the strategy has
// decided with reasons is left out: the reasons say what else it could have been, and each change
// would be another search. Returns those that could be planned and that are faster or need less
// memory: those that fit first, the fastest first; nothing if there is nothing to change. Ends
// early if `stops` returns true.
absl::StatusOr<std::optional<std::vector<Change>>> FindChanges(const Cell& cell,
                                                               const ModelDefinition& model,
                                                               const StopsSearch& stops);

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_CHANGES_H_
