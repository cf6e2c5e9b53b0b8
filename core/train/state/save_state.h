// Saves a run's state in a checkpoint: each rank writes the parts that no lower rank holds, in
// chunks, so that a save needs no memory for a second copy of the state.
#ifndef TESSERA_CORE_TRAIN_STATE_SAVE_STATE_H_
#define TESSERA_CORE_TRAIN_STATE_SAVE_STATE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/runtime/engine.h"
#include "core/train/checkpoint/shard_report.pb.h"
#include "core/train/checkpoint/state_files.h"

namespace tessera {

// Returns InvalidArgument if a run on this mesh with this Plan (in text form) could not save these
// states, or could not read the checkpoint again. Call it before a run begins, so that the run does
// not fail at its first save.
absl::Status CheckSavable(absl::Span<const StateInfo> states, const Mesh& mesh, std::string plan);

// Returns the size of the states in a checkpoint.
int64_t SavedBytes(absl::Span<const StateInfo> states);

// Writes what this rank saves of the state to new files in `folder` (CheckpointSave::folder; see
// save_checkpoint.h for the order of a save), in the dtypes that the backend uses, and syncs their
// contents to the disk. `ranks` is the number of ranks of the job; the engine knows its own.
// Returns the report for rank 0, which contains the error if there is one. One thread at a time.
ShardReport WriteStates(Engine& engine, int ranks, const std::string& folder,
                        const WriteOptions& options = {});

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_STATE_SAVE_STATE_H_
