// Copies a run's state between an engine and a checkpoint: by path, in chunks, so that neither side
// needs memory for a second copy.
#ifndef TESSERA_CORE_TRAIN_STATE_TRANSFER_H_
#define TESSERA_CORE_TRAIN_STATE_TRANSFER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/runtime/engine.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/model.h"

namespace tessera {

struct SaveRequest {
  std::string run_folder;
  int64_t step = 0;
  int64_t batches = 0;        // global batches taken from the data
  int64_t state_version = 1;  // the model's
  std::string data;           // the data's fingerprint
  std::string plan;           // text forms
  std::string config;
  int64_t keep = 3;  // checkpoints that are kept
};

// Saves every state of the engine, in the dtypes that the backend uses. Returns SaveCheckpoint's
// errors.
absl::StatusOr<SavedCheckpoint> SaveState(Engine& engine, const SaveRequest& request);

// Returns InvalidArgument if a checkpoint of these states could not be saved or read again. Lets a
// run fail before it begins.
absl::Status CheckSavable(absl::Span<const StateInfo> states);

enum class Extra { kRefuse, kLeaveOptimizer };

// Compares the state of a checkpoint with that of a run. Returns FailedPrecondition, with one line
// for the first difference, if a state is missing on either side or has another role, shape or kind
// of dtype. The checkpoint may hold an older version of the model's states. With kLeaveOptimizer,
// the checkpoint may have optimizer state that the run does not have: evaluation reads parameters
// only.
absl::Status CheckFits(const Checkpoint& checkpoint, const Model& model,
                       absl::Span<const StateInfo> states, Extra extra);

// Fills every state of the engine from the checkpoint. Different floating dtypes are converted, and
// states of an older version of the model are transposed; the result is a note for the user on
// each, or empty. Returns the errors of CheckFits and of the checkpoint.
absl::StatusOr<std::vector<std::string>> LoadState(const Checkpoint& checkpoint, const Model& model,
                                                   Engine& engine, Extra extra);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STATE_TRANSFER_H_
