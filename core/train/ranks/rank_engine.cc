#include "core/train/ranks/rank_engine.h"

#include <utility>

#include "core/runtime/world_memory.h"
#include "core/status/status_macros.h"
#include "core/train/ranks/compile_ranks.h"

namespace tessera {

absl::StatusOr<std::unique_ptr<Engine>> MakeRankEngine(CompiledRun run, Backend* backend,
                                                       Ranks& ranks, Collectives* collectives) {
  EngineOptions options;
  if (ranks.size() > 1) {
    ASSIGN_OR_RETURN(const Mesh mesh, MeshOfPlan(run.plan, ranks.size()));
    options.rank.rank = ranks.rank();
    options.rank.collectives = collectives;
    if (collectives == nullptr) {
      ASSIGN_OR_RETURN(options.rank.collectives, ranks.CollectivesOn(mesh));
    }
    options.allocate = ArenasOf(ranks.world(), backend);
    // Ranks come here at different times, and operations of the world have a time-out.
    RETURN_IF_ERROR(ranks.Barrier());
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(std::move(run), backend, options);
  const absl::Status agreed = ranks.Agree(engine.status());
  if (!agreed.ok()) {
    // The other ranks may be in a collective that this one will not join.
    ranks.Abort(agreed);
    return agreed;
  }
  return engine;
}

}  // namespace tessera
