#include "tools/compare/training_check.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/plan/rewrite/precision_choice.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "core/train/ranks/rank_engine.h"
#include "core/train/trainer.h"
#include "tools/compare/held_sketch.h"

namespace tessera {
namespace {

constexpr int64_t kSteps = 3;
// The most steps that are tried: in f16 the first ones may overflow, which only lowers the loss
// scale.
constexpr int64_t kMostSteps = 24;

constexpr double kLearningRate = 0.02;
// Beside this, the size of gradients that AdamW divides by is nothing.
constexpr double kLargeEpsilon = 1e6;
// The share by which a step with weight decay shrinks parameters.
constexpr double kDecay = 1e-3;

// Returns the optimizer with constants that make it plain gradient descent, with the decay and the
// clipping of `config`.
OptimizerConfig GradientDescent(OptimizerConfig config) {
  const double lr = config.kind() == "adamw" ? kLearningRate * kLargeEpsilon : kLearningRate;
  config.set_lr(lr);
  config.set_min_lr(lr);
  config.set_schedule("constant");
  config.set_warmup_steps(0);
  config.set_beta1(0);
  config.set_eps(kLargeEpsilon);
  if (config.weight_decay() > 0) config.set_weight_decay(kDecay / lr);
  return config;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TrainingCheck>> TrainingCheck::Compile(
    const CommandLine& line, const ConfiguredRun* configured, const PreparedRun& prepared) {
  std::unique_ptr<TrainingCheck> check(new TrainingCheck(configured));
  check->config_ = configured->config;
  *check->config_.mutable_optimizer() = GradientDescent(configured->config.optimizer());
  const auto record = [&]() -> absl::StatusOr<std::vector<Graph>> {
    ASSIGN_OR_RETURN(Graph train, RecordTrain(*configured->model, check->config_));
    for (const ValueId id : train.values().ids()) {
      const Value& value = train.value(id);
      if (value.complete_gradient_of == kNone) continue;
      const Gradient gradient = {value.path, train.value(value.complete_gradient_of).path};
      train.SetOutput(gradient.output, train.tensor(id));
      check->gradients_.push_back(gradient);
    }
    check->rounding_.jumps =
        absl::c_any_of(train.ops(), [](const Op& op) { return !op.kind->IsContinuous(); });
    ASSIGN_OR_RETURN(Graph initialise, RecordInitialise(train));
    RETURN_IF_ERROR(train.status());
    return std::vector<Graph>{std::move(initialise), std::move(train)};
  };
  absl::StatusOr<std::vector<Graph>> graphs = record();
  RETURN_IF_ERROR(configured->ranks.ranks->Agree(graphs.status()));
  ASSIGN_OR_RETURN(check->compiled_,
                   CompileByPlanOf(line, *configured, prepared,
                                   std::make_shared<const std::vector<Graph>>(*std::move(graphs))));
  check->rounding_.lowered = LowersPrecision(check->compiled_.plan);
  return check;
}

absl::StatusOr<RankSketches> TrainingCheck::Sketch(Engine& engine, bool with_gradients) const {
  RankSketches sketches;
  const Program& train = engine.executor(kTrain).program();
  for (const Gradient& gradient : gradients_) {
    if (!with_gradients) break;
    ASSIGN_OR_RETURN(
        *sketches.add_gradients(),
        SketchOfValue(engine, kTrain, train.FindOutput(gradient.output), gradient.parameter));
  }
  for (const ProgramState& state : train.states) {
    RankSketches::Held* const held = state.role == Role::kParameter ? sketches.add_parameters()
                                     : state.role == Role::kRunningStatistic
                                         ? sketches.add_statistics()
                                         : nullptr;
    if (held == nullptr) continue;
    ASSIGN_OR_RETURN(*held, SketchOfValue(engine, kTrain, state.updated, state.origin));
  }
  return sketches;
}

absl::StatusOr<CheckedStep> TrainingCheck::Merge(const RankSketches& mine) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts,
                   configured_.ranks.ranks->AllGather(mine.SerializeAsString()));
  std::vector<double> losses, norms;
  std::vector<std::vector<RankSketches::Held>> gradients, parameters, statistics;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    RankSketches sketches;
    if (!sketches.ParseFromString(texts[rank])) {
      return absl::InternalError(absl::StrCat("rank ", rank, " has sent malformed sketches"));
    }
    losses.push_back(sketches.loss());
    norms.push_back(sketches.grad_norm());
    gradients.emplace_back(sketches.gradients().begin(), sketches.gradients().end());
    parameters.emplace_back(sketches.parameters().begin(), sketches.parameters().end());
    statistics.emplace_back(sketches.statistics().begin(), sketches.statistics().end());
  }
  return CheckedStep{NumberOfRanks(losses), NumberOfRanks(norms), MergeShards(gradients),
                     MergeShards(parameters), MergeShards(statistics)};
}

absl::StatusOr<CheckedTraining> TrainingCheck::Train(Engine& engine, StopRequest& stop) const {
  Trainer trainer(config_, configured_.model.get(), &engine, configured_.dataset.get(),
                  configured_.ranks.ranks);
  RETURN_IF_ERROR(trainer.Initialise());
  CheckedTraining training;
  ASSIGN_OR_RETURN(const RankSketches initial, Sketch(engine, /*with_gradients=*/false));
  ASSIGN_OR_RETURN(CheckedStep merged, Merge(initial));
  training.initial = std::move(merged.parameters);
  for (int64_t tried = 0; tried < kMostSteps && trainer.step() < kSteps; ++tried) {
    RETURN_IF_ERROR(stop.Agree());
    if (stop.signal() != 0) break;
    ASSIGN_OR_RETURN(const StepResult step, trainer.Step());
    if (!step.finite && step.loss_scale > 0) continue;
    ASSIGN_OR_RETURN(RankSketches mine, Sketch(engine, /*with_gradients=*/true));
    mine.set_loss(step.loss);
    mine.set_grad_norm(step.grad_norm);
    ASSIGN_OR_RETURN(merged, Merge(mine));
    training.steps.push_back(std::move(merged));
    if (!step.finite) break;
  }
  return training;
}

absl::StatusOr<CheckedTraining> TrainingCheck::Run(const std::string& label, StopRequest& stop) {
  Ranks& ranks = *configured_.ranks.ranks;
  ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                   MakeRankEngine(std::move(compiled_), configured_.backend.get(), ranks));
  absl::StatusOr<CheckedTraining> training = Train(*engine, stop);
  // Reports the error to the other ranks before the memory is freed, because freeing is collective.
  if (!training.ok()) {
    ranks.Abort(training.status());
    return training;
  }
  training->label = label;
  training->rounding = rounding_;
  return training;
}

}  // namespace tessera
