#include "tools/plan/cell.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/cost/simulate_step.h"
#include "core/cost/step_cost.h"
#include "core/posix/available_cores.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "tools/train/setup/priced_cluster.h"

namespace tessera {

const Program& Cell::step() const { return *prepared.compiled.FindProgram(kTrain); }

PredictedStep Cell::Predict() const {
  const auto& [cluster, site] = configured->priced;
  PredictedStep predicted;
  predicted.priced = PriceStep(step(), cluster, site, configured->prices.get());
  predicted.times = SimulateStep(step(), predicted.priced.works, predicted.priced.order);
  return predicted;
}

absl::StatusOr<ConfiguredRun> ConfigureCell(const CellRequest& request,
                                            const ModelDefinition& model,
                                            std::vector<std::string>* notes) {
  static Ranks* const alone = new Ranks;  // no rank runs
  RunRanks ranks = {.ranks = alone, .size = request.ranks};
  ASSIGN_OR_RETURN(ranks.of_host, PlannedRanksOfHost(request.line, request.ranks));
  ranks.cores = std::max(1, AvailableCores() / ranks.of_host);
  return ConfigureRun(request.line, model, ranks, notes);
}

absl::StatusOr<Cell> PlanCell(const CellRequest& request, const ModelDefinition& model) {
  Cell cell;
  cell.request = request;
  ASSIGN_OR_RETURN(ConfiguredRun configured, ConfigureCell(request, model, &cell.notes));
  cell.configured = std::make_unique<ConfiguredRun>(std::move(configured));
  ASSIGN_OR_RETURN(cell.prepared, PrepareRun(request.line, *cell.configured, &cell.notes));
  cell.memory = MemoryOfRank(request.line, *cell.configured);
  return cell;
}

CellRequest WithField(CellRequest request, absl::string_view field, absl::string_view value) {
  request.line.settings.push_back(
      {absl::StrCat("--", field), std::string(field), std::string(value)});
  return request;
}

}  // namespace tessera
