// Loads a run's state from a checkpoint of any layout and number of ranks: each rank reads its part
// only, in chunks, so that a load needs no memory for a second copy of the state.
#ifndef TESSERA_CORE_TRAIN_STATE_LOAD_STATE_H_
#define TESSERA_CORE_TRAIN_STATE_LOAD_STATE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/model/model.h"
#include "core/runtime/engine.h"
#include "core/train/checkpoint/open_checkpoint.h"

namespace tessera {

enum class Extra { kRefuse, kLeaveOptimizer };

// Compares the state of a checkpoint with that of a run. Returns FailedPrecondition, with one line
// for the first difference, if a state is missing on either side or has another role, shape or kind
// of dtype. The checkpoint may hold an older version of the model's states, and the loss scale,
// which runs in f16 alone have, may be missing on either side. With kLeaveOptimizer, the checkpoint
// may have optimizer state that the run does not have: evaluation reads parameters only.
absl::Status CheckFits(const Checkpoint& checkpoint, const Model& model,
                       absl::Span<const StateInfo> states, Extra extra);

// Returns whether the run has a loss scale and the checkpoint has none.
bool LacksLossScale(const Checkpoint& checkpoint, absl::Span<const StateInfo> states);

// Reads the engine's states from the checkpoint, each one for its rank's part. A loss scale that
// the checkpoint lacks is not changed. Different floating dtypes are converted, and states of an
// older version of the model are transposed. Returns notes for the user on both, which may be
// empty, or the errors of CheckFits and of the checkpoint.
absl::StatusOr<std::vector<std::string>> LoadState(const Checkpoint& checkpoint, const Model& model,
                                                   Engine& engine, Extra extra);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STATE_LOAD_STATE_H_
