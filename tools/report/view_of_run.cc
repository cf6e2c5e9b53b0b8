#include "tools/report/view_of_run.h"

#include "core/status/status_macros.h"
#include "core/train/programs.h"

namespace tessera {

absl::StatusOr<StepView> ViewOfRun(const ConfiguredRun& configured, const CompiledRun& run) {
  ASSIGN_OR_RETURN(const Graph recorded, RecordTrain(*configured.model, configured.config));
  const auto& [cluster, site] = configured.priced;
  return MakeStepView(recorded, run, cluster, site, configured.prices.get());
}

}  // namespace tessera
