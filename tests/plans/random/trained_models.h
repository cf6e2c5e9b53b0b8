// The small models that are trained under random Plans.
#ifndef TESSERA_TESTS_PLANS_RANDOM_TRAINED_MODELS_H_
#define TESSERA_TESTS_PLANS_RANDOM_TRAINED_MODELS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "strategies/conformance/rank_training.h"
#include "tests/plans/random/plan_case.h"
#include "tests/plans/random/subjects.h"

namespace tessera {

// A model, and the results of one process that trains it.
struct TrainedModel {
  std::string name;
  bool on_cpu = false;  // it is trained on the cpu backend, not on the reference backend
  TrainingRun run;
  TrainingResult alone;
  Subjects subjects;
  std::vector<PlanCase> of_strategies;  // the Plans of ddp and fsdp; only for some models
};

// Trains all models as one process: GPT and MLP, with SGD and with AdamW and clipping, from the
// simplest one on. The last one runs evaluation and generation too.
std::vector<TrainedModel> TrainModelsAlone(bool on_cpu = false);

// Returns nullptr if there is none of that name.
const TrainedModel* FindModel(const std::vector<TrainedModel>& models, absl::string_view name);

}  // namespace tessera

#endif  // TESSERA_TESTS_PLANS_RANDOM_TRAINED_MODELS_H_
