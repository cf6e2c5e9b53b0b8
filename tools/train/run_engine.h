// The engine and the trainer of a rank, which hold the memory of its run.
#ifndef TESSERA_TOOLS_TRAIN_RUN_ENGINE_H_
#define TESSERA_TOOLS_TRAIN_RUN_ENGINE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/runtime/engine.h"
#include "core/train/state/load_state.h"
#include "core/train/trainer.h"
#include "tools/train/setup/configure.h"

namespace tessera {

// Loads the checkpoint of the run, and prints the notes of that. Collective.
absl::Status LoadCheckpoint(const ConfiguredRun& configured, Extra extra, Trainer* trainer);

// Makes the engine and the trainer of this rank, and calls `use`. If that fails, reports it to the
// other ranks before the engine's memory is freed, because freeing is collective.
absl::StatusOr<int> WithEngine(
    const ConfiguredRun& configured, CompiledRun compiled,
    const std::function<absl::StatusOr<int>(Engine& engine, Trainer& trainer)>& use);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_RUN_ENGINE_H_
