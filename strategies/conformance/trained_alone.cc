#include "strategies/conformance/trained_alone.h"

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"

namespace tessera {
namespace {

absl::StatusOr<std::vector<OnOneProcess>> TrainAlone(const TrainingRun& run) {
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

absl::StatusOr<const TrainedAlone::Results*> TrainedAlone::Of(const std::string& model,
                                                              const TrainingRun& run) {
  const auto key = std::make_pair(model, run.steps);
  if (const auto found = known_.find(key); found != known_.end()) return &found->second;
  TrainingRun alone = run;
  Results results;
  alone.backend = [] { return MakeReferenceBackend(); };
  ASSIGN_OR_RETURN(results.reference, TrainAlone(alone));
  alone.backend = [] { return MakeCpuBackend(1); };
  ASSIGN_OR_RETURN(results.cpu, TrainAlone(alone));
  return &known_.emplace(key, std::move(results)).first->second;
}

}  // namespace tessera
