#include "core/train/optimizer.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/plan/rewrite/precision.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

constexpr absl::string_view kStepPath = "optimizer.step";
constexpr absl::string_view kLossScaleStepsPath = "optimizer.loss_scale_steps";

constexpr double kLargestLossScale = 1 << 24;

// Names below a parameter's path.
constexpr absl::string_view kMomentum = "momentum";
constexpr absl::string_view kAdamM = "adam_m";
constexpr absl::string_view kAdamV = "adam_v";

std::string MomentPath(absl::string_view parameter, absl::string_view name) {
  return absl::StrCat(parameter, ".", name);
}

// Inputs that the updates of all parameters share.
struct CommonInputs {
  Tensor lr, scale, step, predicate;
};

Tensor Norm(absl::Span<const Tensor> gradients) {
  Tensor sum = SumSquares(gradients[0]);
  for (size_t i = 1; i < gradients.size(); ++i) sum = Add(sum, SumSquares(gradients[i]));
  return Sqrt(sum);
}

// min(1, clip_norm / (norm + 1e-6)).
Tensor ClippingScale(Graph& graph, Tensor norm, double clip_norm) {
  const TensorType scalar = {DType::kF32, {}};
  if (clip_norm == 0) return Fill(graph, scalar, 1);
  const Tensor limit = Fill(graph, scalar, clip_norm);
  const Tensor factor = Divide(limit, AddConstant(norm, 1e-6));
  return Minimum(factor, Fill(graph, scalar, 1));
}

// The loss scale of a step (an invalid handle if there is none), and its update.
class LossScale {
 public:
  LossScale(Graph& graph, const std::optional<LossScaling>& scaling) {
    if (!scaling.has_value()) return;
    growth_steps_ = scaling->growth_steps;
    scale_ = graph.DeclareState(kLossScalePath, {DType::kF32, {}}, Role::kOptimizerState,
                                Initializer::Constant(scaling->first));
    steps_ = graph.DeclareState(kLossScaleStepsPath, {DType::kI64, {}}, Role::kOptimizerState,
                                Initializer::Constant(0));
  }

  Tensor Scaled(Tensor loss) const { return scale_.valid() ? Multiply(loss, scale_) : loss; }
  Tensor Unscaled(Tensor x) const { return scale_.valid() ? Divide(x, scale_) : x; }

  // Records the scale of the next step.
  void Update(Graph& graph, Tensor finite) const {
    if (!scale_.valid()) return;
    const auto count = [&](double value) { return Fill(graph, {DType::kI64, {}}, value); };
    const auto factor = [&](double value) { return Fill(graph, {DType::kF32, {}}, value); };
    const Tensor steps = Add(steps_, count(1));
    const auto before = static_cast<double>(growth_steps_ - 1);
    // 1 in the last step before the scale grows, else 0.
    const Tensor grows = Cast(Maximum(Subtract(steps, count(before)), count(0)), DType::kU8);
    const Tensor larger = Minimum(Multiply(scale_, factor(2)), factor(kLargestLossScale));
    const Tensor smaller = Maximum(Multiply(scale_, factor(0.5)), factor(1));
    const Tensor next = Select(finite, Select(grows, larger, scale_), smaller);
    graph.SetState(kLossScalePath, next);
    graph.SetState(kLossScaleStepsPath, Select(finite, Select(grows, count(0), steps), count(0)));
    graph.SetOutput("loss_scale", next);
  }

 private:
  Tensor scale_, steps_;
  int64_t growth_steps_ = 0;
};

// Declares a moment. The current scope is its parameter's path, below which moments and operators
// have theirs.
Tensor DeclareMoment(Graph& graph, const State& parameter, absl::string_view name) {
  return graph.DeclareState(name, parameter.type, Role::kOptimizerState, Initializer::Constant(0));
}

void UpdateBySgd(Graph& graph, const State& parameter, Tensor gradient, const CommonInputs& common,
                 const SgdOptions& options) {
  Tensor momentum;
  if (options.momentum != 0) momentum = DeclareMoment(graph, parameter, kMomentum);
  const SgdResult result = SgdUpdate(graph.tensor(parameter.input), gradient, momentum, common.lr,
                                     common.scale, common.predicate, options);
  graph.SetState(parameter.path, result.parameter);
  if (options.momentum != 0) {
    graph.SetState(MomentPath(parameter.path, kMomentum), result.momentum);
  }
}

void UpdateByAdamw(Graph& graph, const State& parameter, Tensor gradient,
                   const CommonInputs& common, const AdamwOptions& options) {
  const Tensor m = DeclareMoment(graph, parameter, kAdamM);
  const Tensor v = DeclareMoment(graph, parameter, kAdamV);
  const AdamwResult result = AdamwUpdate(graph.tensor(parameter.input), gradient, m, v, common.lr,
                                         common.scale, common.step, common.predicate, options);
  graph.SetState(parameter.path, result.parameter);
  graph.SetState(MomentPath(parameter.path, kAdamM), result.m);
  graph.SetState(MomentPath(parameter.path, kAdamV), result.v);
}

// Returns copies of the running statistics that the model updates.
std::vector<State> UpdatedStatistics(const Graph& graph) {
  std::vector<State> statistics;
  for (const State& state : graph.states()) {
    if (state.role == Role::kRunningStatistic && state.updated != state.input)
      statistics.push_back(state);
  }
  return statistics;
}

absl::Status CheckRange(absl::string_view field, double value, bool below_one) {
  if (std::isfinite(value) && value >= 0 && (!below_one || value < 1)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ": it must be ",
                   below_one ? "0 or more, and below 1" : "a finite number, 0 or more"));
}

}  // namespace

bool DecaysByDefault(const State& parameter) {
  return parameter.type.shape.size() >= 2 && !parameter.bias;
}

bool IsLossScaleState(absl::string_view path) {
  return path == kLossScalePath || path == kLossScaleStepsPath;
}

std::vector<std::string> MomentPaths(absl::string_view parameter) {
  std::vector<std::string> paths;
  for (absl::string_view name : {kMomentum, kAdamM, kAdamV}) {
    paths.push_back(MomentPath(parameter, name));
  }
  return paths;
}

absl::Status CheckOptimizer(const OptimizerConfig& config) {
  if (config.kind() != "sgd" && config.kind() != "adamw") {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.kind is '", config.kind(), "': it must be \"sgd\" or \"adamw\""));
  }
  RETURN_IF_ERROR(CheckRange("optimizer.weight_decay", config.weight_decay(), false));
  RETURN_IF_ERROR(CheckRange("optimizer.clip_norm", config.clip_norm(), false));
  if (config.kind() == "sgd") {
    return CheckRange("optimizer.momentum", config.momentum(), true);
  }
  RETURN_IF_ERROR(CheckRange("optimizer.beta1", config.beta1(), true));
  RETURN_IF_ERROR(CheckRange("optimizer.beta2", config.beta2(), true));
  return CheckRange("optimizer.eps", config.eps(), false);
}

absl::Status RecordUpdate(Graph& graph, Tensor loss, const OptimizerConfig& config,
                          const DecayRule& decays, const std::optional<LossScaling>& scaling) {
  RETURN_IF_ERROR(CheckOptimizer(config));
  RETURN_IF_ERROR(graph.status());
  std::vector<State> parameters;  // copies: declaring moments moves the Graph's list
  std::vector<Tensor> targets;
  for (const State& state : graph.states()) {
    if (state.role != Role::kParameter || !state.trainable) continue;
    parameters.push_back(state);
    targets.push_back(graph.tensor(state.input));
  }
  if (parameters.empty()) {
    return absl::InvalidArgumentError("the model has no parameter that can be trained");
  }
  const std::vector<State> statistics = UpdatedStatistics(graph);
  const LossScale loss_scale(graph, scaling);
  ASSIGN_OR_RETURN(const std::vector<Tensor> gradients,
                   RecordGradients(graph, loss_scale.Scaled(loss), targets));

  graph.set_phase(Phase::kUpdate);
  const Tensor lr = graph.Input("lr", {DType::kF32, {}});
  const Tensor step = graph.DeclareState(kStepPath, {DType::kI64, {}}, Role::kOptimizerState,
                                         Initializer::Constant(0));
  CommonInputs common;
  common.lr = lr;
  Tensor norm;
  {
    Scope scope(&graph, "update");
    norm = loss_scale.Unscaled(Norm(gradients));
    common.scale = loss_scale.Unscaled(ClippingScale(graph, norm, config.clip_norm()));
    std::vector<Tensor> results = {loss, norm};
    for (const State& state : statistics) results.push_back(graph.tensor(state.updated));
    common.predicate = AllFinite(results);
    common.step = Add(step, Fill(graph, step.type(), 1));
    graph.SetState(kStepPath, Select(common.predicate, common.step, step));
    graph.SetOutput("finite", Cast(common.predicate, DType::kI32));
    loss_scale.Update(graph, common.predicate);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const State& parameter = parameters[i];
    const double weight_decay = decays(parameter) ? config.weight_decay() : 0;
    Scope scope(&graph, parameter.path);
    if (config.kind() == "sgd") {
      UpdateBySgd(graph, parameter, gradients[i], common, {config.momentum(), weight_decay});
    } else {
      UpdateByAdamw(graph, parameter, gradients[i], common,
                    {config.beta1(), config.beta2(), config.eps(), weight_decay});
    }
  }
  for (const State& state : statistics) {
    Scope scope(&graph, state.path);
    const Tensor before = graph.tensor(state.input), after = graph.tensor(state.updated);
    graph.SetState(state.path, Select(common.predicate, after, before));
  }
  graph.SetOutput("loss", loss);
  graph.SetOutput("grad_norm", norm);
  return graph.status();
}

}  // namespace tessera
