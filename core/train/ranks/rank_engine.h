// The engine of one rank of a run.
#ifndef TESSERA_CORE_TRAIN_RANKS_RANK_ENGINE_H_
#define TESSERA_CORE_TRAIN_RANKS_RANK_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/compile/compile.h"
#include "core/kernels/interface/backend.h"
#include "core/runtime/engine.h"
#include "core/train/ranks/ranks.h"

namespace tessera {

// Collective. Makes the engine of this rank: shared arenas come from the ranks' world, and
// collectives go through its communicators, or through `collectives` if that is not null. `run`
// must come from CompileTogether. The engine must be destroyed before `ranks`; its destruction is
// collective too, unless a rank has aborted. Errors are agreed ones, if all ranks have compiled the
// same.
absl::StatusOr<std::unique_ptr<Engine>> MakeRankEngine(CompiledRun run, Backend* backend,
                                                       Ranks& ranks,
                                                       Collectives* collectives = nullptr);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_RANKS_RANK_ENGINE_H_
