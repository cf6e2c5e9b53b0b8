// A run's state from an engine into a checkpoint and back: by path, piece by piece, so that neither
// side ever holds a second copy of it.
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

namespace tessera {

struct SaveRequest {
  std::string run_folder;
  int64_t step = 0;
  int64_t batches = 0;  // global batches taken from the data
  std::string data;     // its fingerprint
  std::string plan;     // text forms
  std::string config;
  int64_t keep = 3;  // checkpoints that stay
};

// Saves every state of the engine, in the dtypes that the backend keeps. Errors are
// SaveCheckpoint's.
absl::StatusOr<SavedCheckpoint> SaveState(Engine& engine, const SaveRequest& request);

// InvalidArgument if a checkpoint of these states could not be saved, or not be read again: to be
// asked before a run begins.
absl::Status CheckSavable(absl::Span<const StateInfo> states);

enum class Extra { kRefuse, kLeaveOptimizer };

// What does not fit between a checkpoint and the states of a run, as one line: a state that is
// missing on either side, or of another shape or kind of dtype. OK if all fits; else
// FailedPrecondition. With kLeaveOptimizer the checkpoint may have optimizer state that the run has
// not: to evaluate takes parameters alone.
absl::Status CheckFits(const Checkpoint& checkpoint, absl::Span<const StateInfo> states,
                       Extra extra);

// Fills every state of the engine from the checkpoint. Floating dtypes are converted where the two
// differ; the result is a line for the user that says so, or "". Errors: CheckFits', and the
// checkpoint's own.
absl::StatusOr<std::string> LoadState(const Checkpoint& checkpoint, Engine& engine, Extra extra);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STATE_TRANSFER_H_
