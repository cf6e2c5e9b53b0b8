// Copies a run's state between engines and a checkpoint: by path, in chunks, so that neither side
// needs memory for a second copy. Each rank writes and reads its part of the state only. The
// checkpoint may come from any layout and number of ranks.
#ifndef TESSERA_CORE_TRAIN_STATE_STATE_TRANSFER_H_
#define TESSERA_CORE_TRAIN_STATE_STATE_TRANSFER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/layout/mesh.h"
#include "core/model/model.h"
#include "core/runtime/engine.h"
#include "core/tensor/shape.h"
#include "core/train/checkpoint/open_checkpoint.h"
#include "core/train/checkpoint/save_checkpoint.h"
#include "core/train/checkpoint/write_shards.h"
#include "core/train/data/data_position.h"

namespace tessera {

struct SaveRequest {
  std::string run_folder;
  int64_t step = 0;
  DataPosition position;
  int64_t state_version = 1;  // the model's
  std::string data;           // the data's fingerprint
  std::string run;            // the identity of the run (core/train/run_identity.h)
  std::string plan;           // the completed Plan, in text form
  std::string config;
  int64_t keep = 3;  // checkpoints that are kept
};

// The ranks of a job save together, in the order that save_checkpoint.h states: BeginSave on rank
// 0, WriteStates on every rank, CheckpointSave::Finish on rank 0. Every state is saved in the dtype
// that the backend uses. `ranks` is the number of ranks of the job; the engine knows its own.
absl::StatusOr<std::unique_ptr<CheckpointSave>> BeginSave(const Engine& engine,
                                                          const SaveRequest& request);
ShardReport WriteStates(Engine& engine, int ranks, const std::string& folder);

// Returns InvalidArgument if a run on this mesh with this Plan (in text form) could not save these
// states, or could not read the checkpoint again. Call it before a run begins, so that the run does
// not fail at its first save.
absl::Status CheckSavable(absl::Span<const StateInfo> states, const Mesh& mesh, std::string plan);

// Returns the size of the states in a checkpoint.
int64_t SavedBytes(absl::Span<const StateInfo> states);

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

#endif  // TESSERA_CORE_TRAIN_STATE_STATE_TRANSFER_H_
