#include "tests/plans/random/trained_models.h"

#include <utility>

#include "core/kernels/cpu/backend.h"
#include "core/status/check.h"
#include "core/train/programs.h"
#include "models/mlp/mlp.h"
#include "strategies/conformance/small_models.h"
#include "tests/plans/random/strategy_plans.h"

namespace tessera {
namespace {

// A step is enough to see a wrong gradient, and a second one to see a wrong update.
constexpr int kSteps = 2;

TrainingRun Mlp(const std::string& optimizer) {
  MlpConfig model;
  model.set_window(3);
  model.set_channels(4);
  model.add_hidden(8);
  model.add_hidden(6);
  model.set_vocabulary(9);
  RunConfig config;
  config.set_batch(8);
  config.set_sequence(3);
  config.mutable_optimizer()->set_kind(optimizer);
  config.mutable_optimizer()->set_lr(0.1);
  if (optimizer == "adamw") {
    config.mutable_optimizer()->set_lr(0.01);
    config.mutable_optimizer()->set_clip_norm(0.5);
    config.mutable_optimizer()->set_beta1(0.9);
    config.mutable_optimizer()->set_beta2(0.95);
    config.mutable_optimizer()->set_eps(1e-8);
    config.mutable_optimizer()->set_weight_decay(0.1);
  } else {
    config.mutable_optimizer()->set_momentum(0.9);
  }
  auto created = CreateMlp(model);
  TESSERA_CHECK(created.ok()) << created.status();
  return RecordTraining(*std::move(created), config);
}

GptSizes Tiny() {
  return {.layers = 1, .batch = 4, .sequence = 4, .heads = 2, .head_dim = 2, .vocabulary = 7};
}

GptSizes Clipped(GptSizes sizes) {
  sizes.clip_norm = 0.5;
  sizes.optimizer = "adamw";
  return sizes;
}

// Two blocks, and sizes that few numbers of ranks divide.
GptSizes Odd() {
  return {.layers = 2,
          .batch = 6,
          .sequence = 3,
          .heads = 3,
          .head_dim = 1,
          .vocabulary = 5,
          .untied_head = true};
}

}  // namespace

std::vector<TrainedModel> TrainModelsAlone(bool on_cpu) {
  std::vector<TrainedModel> models;
  const auto add = [&models, on_cpu](const std::string& name, TrainingRun run) {
    if (on_cpu) run.backend = [] { return MakeCpuBackend(1); };
    run.steps = kSteps;
    run.check_memory = true;
    run.delays = 0;
    absl::StatusOr<TrainingResult> alone = Train(run, Plan(), 1);
    TESSERA_CHECK(alone.ok()) << name << ": " << alone.status();
    Subjects subjects = SubjectsOf(GraphOf(run, kTrain));
    models.push_back({name, on_cpu, std::move(run), *std::move(alone), std::move(subjects), {}});
  };
  add("mlp", Mlp("sgd"));
  add("gpt", SmallGpt(Tiny()));
  add("mlp_adamw", Mlp("adamw"));
  add("gpt_adamw", SmallGpt(Clipped(Tiny())));
  add("gpt_odd", SmallGpt(Clipped(Odd())));
  TrainingRun all_programs = SmallGpt(Clipped(Tiny()));
  AddOtherPrograms(all_programs);
  add("gpt_run", std::move(all_programs));
  add("vgg", SmallVgg({.batch = 4}));
  TrainingRun normalized = SmallVgg({.batch = 8, .groups = 4});
  AddOtherPrograms(normalized);
  add("vgg_norm", std::move(normalized));
  for (TrainedModel& model : models) {
    if (model.name != "gpt_adamw" && model.name != "mlp" && model.name != "vgg_norm") continue;
    auto plans = StrategyPlans(model.name, model.run);
    TESSERA_CHECK(plans.ok()) << model.name << ": " << plans.status();
    model.of_strategies = *std::move(plans);
  }
  return models;
}

const TrainedModel* FindModel(const std::vector<TrainedModel>& models, absl::string_view name) {
  for (const TrainedModel& model : models) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

}  // namespace tessera
