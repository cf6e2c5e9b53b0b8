// Renames damaged checkpoints, so that none takes the place of a good one among those that a run
// keeps.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_SET_ASIDE_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_SET_ASIDE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/posix/folder.h"

namespace tessera {

// Renames step_N to damaged-step_N (or, if that exists, damaged-step_N-2, -3, ...) for the
// checkpoints that are in `damaged` (OpenedCheckpoint), or that lack a file, or have one of another
// size (CheckComplete). A checkpoint that merely cannot be read now keeps its name. Nothing removes
// the renamed ones. Returns one line for each. No other process may use the run's folder.
absl::StatusOr<std::vector<std::string>> SetAsideDamaged(const Folder& checkpoints,
                                                         absl::Span<const std::string> damaged);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_SET_ASIDE_H_
