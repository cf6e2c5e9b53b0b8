#include "core/train/ranks/rank_engine.h"

#include <utility>

#include "core/plan/complete.h"
#include "core/runtime/world_memory.h"
#include "core/status/status_macros.h"

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
    // This also waits for ranks that come later: operations of the world have a time-out.
    options.agree = [&ranks](const absl::Status& mine) { return ranks.Agree(mine); };
  }
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(std::move(run), backend, options);
  if (!engine.ok()) ranks.Abort(engine.status());
  return engine;
}

}  // namespace tessera
