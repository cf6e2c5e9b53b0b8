#include "tools/train/run_engine.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/status/status_macros.h"
#include "core/train/ranks/rank_engine.h"
#include "core/train/ranks/ranks.h"
#include "tools/train/rank/standard_output.h"

namespace tessera {

absl::Status LoadCheckpoint(const ConfiguredRun& configured, Extra extra, Trainer* trainer) {
  ASSIGN_OR_RETURN(const std::vector<std::string> notes,
                   trainer->Load(*configured.checkpoint, extra, configured.first_row));
  PrintNotes(notes);
  return absl::OkStatus();
}

absl::StatusOr<int> WithEngine(
    const ConfiguredRun& configured, CompiledRun compiled,
    const std::function<absl::StatusOr<int>(Engine& engine, Trainer& trainer)>& use) {
  Ranks& ranks = *configured.ranks.ranks;
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   MakeRankEngine(std::move(compiled), configured.backend.get(), ranks));
  Trainer trainer(configured.config, configured.model.get(), engine.get(), configured.dataset.get(),
                  &ranks);
  absl::StatusOr<int> code = use(*engine, trainer);
  if (!code.ok()) ranks.Abort(code.status());
  return code;
}

}  // namespace tessera
