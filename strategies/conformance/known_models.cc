#include "strategies/conformance/known_models.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "strategies/conformance/small_models.h"

namespace tessera {
namespace {

absl::StatusOr<std::vector<OnOneProcess>> TrainOnOneProcess(const TrainingRun& run) {
  std::vector<OnOneProcess> alone;
  const int64_t micro_batches = run.config.micro_batches();
  if (micro_batches > 1) {
    ASSIGN_OR_RETURN(TrainingResult result, Train(run, PlanOfConfig(run.config, run.graphs), 1));
    alone.push_back({absl::StrCat("one process with ", micro_batches, " micro-batches, too,"),
                     std::move(result)});
  }
  ASSIGN_OR_RETURN(TrainingResult result, Train(run, Plan(), 1));
  alone.push_back(
      {micro_batches > 1 ? "one process without micro-batches" : "one process", std::move(result)});
  return alone;
}

}  // namespace

KnownModel::KnownModel(const std::string& name)
    : run_(MakeConformanceModel(name)),
      contexts_(std::make_shared<const PlanningContexts>(&run_)) {}

absl::StatusOr<const KnownModel::TrainedAlone*> KnownModel::TrainAlone(int steps) {
  if (const auto found = trained_alone_.find(steps); found != trained_alone_.end()) {
    return &found->second;
  }
  TrainingRun run = run_;
  run.steps = steps;
  TrainedAlone results;
  run.backend = [] { return MakeReferenceBackend(); };
  ASSIGN_OR_RETURN(results.reference, TrainOnOneProcess(run));
  run.backend = [] { return MakeCpuBackend(1); };
  ASSIGN_OR_RETURN(results.cpu, TrainOnOneProcess(run));
  return &trained_alone_.emplace(steps, std::move(results)).first->second;
}

KnownModel& KnownModels::Of(const std::string& name) {
  return models_.try_emplace(name, name).first->second;
}

}  // namespace tessera
