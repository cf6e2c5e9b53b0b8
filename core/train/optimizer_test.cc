#include "core/train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/runtime/run_graph.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

// loss = sum of (w * x)^2 / 2 over all parameters: its gradient is w * x^2.
// Parameters: matrix [2, 2], matrix.bias [2, 2] and vector [3].
class OptimizerTest : public ::testing::Test {
 protected:
  using Values = std::map<std::string, HostTensor>;

  Graph Record(const OptimizerConfig& config,
               const std::optional<LossScaling>& scaling = std::nullopt) {
    Graph graph("train");
    Tensor loss;
    const auto add = [&](const std::string& name, const Shape& shape) {
      const Tensor w = name == "matrix.bias"
                           ? graph.Bias(name, shape)
                           : graph.Parameter(name, shape, Initializer::Constant(0));
      const Tensor x = graph.Input(name + "_x", {DType::kF32, shape});
      const Tensor half = Scale(SumSquares(Multiply(w, x)), 0.5);
      loss = loss.valid() ? Add(loss, half) : half;
    };
    add("matrix", {2, 2});
    add("matrix.bias", {2, 2});
    add("vector", {3});
    graph.DeclareState("frozen", {DType::kF32, {2}}, Role::kParameter, Initializer::Constant(1),
                       /*trainable=*/false);
    const absl::Status status = RecordUpdate(graph, loss, config, DecaysByDefault, scaling);
    EXPECT_TRUE(status.ok()) << status;
    return graph;
  }

  static void Set(Values& values, const std::string& name, Shape shape,
                  std::vector<double> elements) {
    values[name].shape = std::move(shape);
    values[name].values = std::move(elements);
  }

  // The first state of a run, and its inputs.
  Values First() {
    Values given;
    Set(given, "matrix", {2, 2}, {1, -2, 3, -4});
    Set(given, "matrix.bias", {2, 2}, {1, 1, 1, 1});
    Set(given, "vector", {3}, {0.5, 0.25, -1});
    Set(given, "frozen", {2}, {7, 8});
    Set(given, "matrix_x", {2, 2}, {1, 1, 1, 1});
    Set(given, "matrix.bias_x", {2, 2}, {1, 2, 1, 1});
    Set(given, "vector_x", {3}, {1, 1, 2});
    for (const char* path : {"matrix", "matrix.bias", "vector"}) {
      for (const char* moment : {".momentum", ".adam_m", ".adam_v"}) {
        HostTensor& zeros = given[std::string(path) + moment];
        zeros = given[path];
        std::fill(zeros.values.begin(), zeros.values.end(), 0.0);
      }
    }
    given["optimizer.step"].values = {0};
    given["lr"].values = {0.1};
    return given;
  }

  Values RunStep(const Graph& graph, const Values& given) {
    auto result = RunGraph(graph, *backend_, given);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  const std::unique_ptr<Backend> backend_ = MakeReferenceBackend();
};

OptimizerConfig Sgd() {
  OptimizerConfig config;
  config.set_kind("sgd");
  return config;
}

// gradients: matrix {1, -2, 3, -4}, matrix.bias {1, 4, 1, 1}, vector {0.5, 0.25, -4}
const double kNorm = std::sqrt(1.0 + 4 + 9 + 16 + 1 + 16 + 1 + 1 + 0.25 + 0.0625 + 16);

TEST_F(OptimizerTest, SgdWithoutClipping) {
  const Values after = RunStep(Record(Sgd()), First());
  EXPECT_NEAR(after.at("grad_norm").values[0], kNorm, 1e-12);
  EXPECT_EQ(after.at("finite").values[0], 1);
  EXPECT_EQ(after.at("optimizer.step").values[0], 1);
  EXPECT_NEAR(after.at("matrix").values[1], -2 + 0.1 * 2, 1e-12);
  EXPECT_NEAR(after.at("vector").values[2], -1 + 0.1 * 4, 1e-12);
  EXPECT_EQ(after.count("matrix.momentum"), 0);
}

TEST_F(OptimizerTest, ClippingIsThatOfTorch) {
  OptimizerConfig config = Sgd();
  config.set_clip_norm(1.5);
  const Values after = RunStep(Record(config), First());
  const double scale = 1.5 / (kNorm + 1e-6);
  EXPECT_NEAR(after.at("grad_norm").values[0], kNorm, 1e-12) << "before clipping";
  EXPECT_NEAR(after.at("matrix").values[3], -4 + 0.1 * scale * 4, 1e-12);
  config.set_clip_norm(100);
  EXPECT_NEAR(RunStep(Record(config), First()).at("matrix").values[3], -4 + 0.1 * 4, 1e-12);
}

// Regression test: the rule looked for ".bias" in the path.
TEST(DecaysByDefault, ABiasIsOneWhateverItsPath) {
  State state;
  state.path = "layers.0.bias";
  state.type = {DType::kF32, {2, 2}};
  EXPECT_TRUE(DecaysByDefault(state));
  state.bias = true;
  state.path = "layers.0.offset";
  EXPECT_FALSE(DecaysByDefault(state));
}

TEST_F(OptimizerTest, DecayAppliesToMatricesThatAreNoBiases) {
  OptimizerConfig config = Sgd();
  config.set_momentum(0.9);
  config.set_weight_decay(0.5);
  const Values after = RunStep(Record(config), First());
  EXPECT_NEAR(after.at("matrix").values[0], 1 - 0.1 * (1 + 0.5 * 1), 1e-12);
  EXPECT_NEAR(after.at("matrix.momentum").values[0], 1.5, 1e-12);
  EXPECT_NEAR(after.at("matrix.bias").values[0], 1 - 0.1 * 1, 1e-12);
  EXPECT_NEAR(after.at("vector").values[0], 0.5 - 0.1 * 0.5, 1e-12);
}

TEST_F(OptimizerTest, AdamwCountsItsSteps) {
  OptimizerConfig config;
  config.set_kind("adamw");
  config.set_beta1(0.9);
  config.set_beta2(0.99);
  config.set_eps(1e-8);
  config.set_weight_decay(0.1);
  const Graph graph = Record(config);
  Values given = First();
  const Values after = RunStep(graph, given);
  // The first step moves every element by lr in its gradient's direction, and decays.
  EXPECT_NEAR(after.at("matrix").values[0], 1 * (1 - 0.1 * 0.1) - 0.1, 1e-6);
  EXPECT_NEAR(after.at("vector").values[2], -1 + 0.1, 1e-6);
  EXPECT_NEAR(after.at("matrix.adam_m").values[1], 0.1 * -2, 1e-12);
  EXPECT_NEAR(after.at("matrix.adam_v").values[1], 0.01 * 4, 1e-12);
  for (const auto& [name, tensor] : after) given[name] = tensor;
  EXPECT_EQ(RunStep(graph, given).at("optimizer.step").values[0], 2);
}

TEST_F(OptimizerTest, AStepThatIsNotFiniteChangesNothing) {
  for (const char* kind : {"sgd", "adamw"}) {
    OptimizerConfig config = Sgd();
    config.set_kind(kind);
    config.set_momentum(0.9);
    config.set_clip_norm(1);
    config.set_beta2(0.9);
    Values given = First();
    given["optimizer.step"].values = {5};
    given["vector_x"].values = {1, INFINITY, 1};
    const Graph graph = Record(config);
    const Values after = RunStep(graph, given);
    EXPECT_EQ(after.at("finite").values[0], 0);
    for (const State& state : graph.states()) {
      EXPECT_EQ(after.at(state.path).values, given.at(state.path).values) << state.path;
    }
  }
}

TEST_F(OptimizerTest, ALossScaleChangesNoUpdate) {
  OptimizerConfig config = Sgd();
  config.set_clip_norm(1.5);
  Values given = First();
  given["optimizer.loss_scale"].values = {1024};
  given["optimizer.loss_scale_steps"].values = {3};
  const Values with = RunStep(Record(config, LossScaling()), given);
  const Values without = RunStep(Record(config), First());
  for (const auto& [name, tensor] : without) {
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      EXPECT_NEAR(with.at(name).values[i], tensor.values[i], 1e-12) << name;
    }
  }
  EXPECT_EQ(with.at("loss_scale").values[0], 1024);
  EXPECT_EQ(with.at("optimizer.loss_scale_steps").values[0], 4);
}

TEST_F(OptimizerTest, ALossScaleGrowsAfterGoodStepsAndIsHalvedByABadOne) {
  struct Step {
    double scale, steps, new_scale, new_steps;
    bool finite;
  };
  const double largest = 1 << 24;
  const Graph graph = Record(Sgd(), LossScaling{.first = 8, .growth_steps = 3});
  for (const Step& step :
       {Step{8, 0, 8, 1, true}, Step{8, 1, 8, 2, true}, Step{8, 2, 16, 0, true},
        Step{8, 2, 4, 0, false}, Step{1, 0, 1, 0, false}, Step{largest, 2, largest, 0, true}}) {
    Values given = First();
    given["optimizer.loss_scale"].values = {step.scale};
    given["optimizer.loss_scale_steps"].values = {step.steps};
    if (!step.finite) given["vector_x"].values = {1, INFINITY, 1};
    const Values after = RunStep(graph, given);
    EXPECT_EQ(after.at("finite").values[0], step.finite ? 1 : 0);
    EXPECT_EQ(after.at("optimizer.loss_scale").values[0], step.new_scale);
    EXPECT_EQ(after.at("loss_scale").values[0], step.new_scale);
    EXPECT_EQ(after.at("optimizer.loss_scale_steps").values[0], step.new_steps);
  }
}

// In f16 numbers above 65504 are infinite: a scaled gradient of 4 overflows, and of 4 / 64 does
// not.
TEST_F(OptimizerTest, AnOverflowOfF16SkipsTheStepAndHalvesTheLossScale) {
  const std::unique_ptr<Backend> cpu = MakeCpuBackend(1);
  Plan plan;
  plan.add_stages()->mutable_precision()->set_parameters(TypeProto::F16);
  const Graph graph = Record(Sgd(), LossScaling());
  Values given = First();
  given["optimizer.loss_scale_steps"].values = {7};
  given["optimizer.loss_scale"].values = {65536};
  auto after = RunGraph(graph, *cpu, given, plan);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->at("finite").values[0], 0);
  EXPECT_EQ(after->at("optimizer.loss_scale").values[0], 32768);
  EXPECT_EQ(after->at("optimizer.loss_scale_steps").values[0], 0);
  EXPECT_EQ(after->at("optimizer.step").values[0], 0);
  EXPECT_EQ(after->at("matrix").values, given["matrix"].values);

  given["optimizer.loss_scale"].values = {1024};
  after = RunGraph(graph, *cpu, given, plan);
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->at("finite").values[0], 1);
  EXPECT_NEAR(after->at("grad_norm").values[0], kNorm, 1e-3 * kNorm);
  EXPECT_NEAR(after->at("matrix").values[1], -2 + 0.1 * 2, 1e-3);
  EXPECT_EQ(after->at("optimizer.loss_scale_steps").values[0], 8);
}

TEST_F(OptimizerTest, WhatDoesNotFitIsNamed) {
  OptimizerConfig config = Sgd();
  config.set_kind("lion");
  EXPECT_THAT(std::string(CheckOptimizer(config).message()),
              HasSubstr("optimizer.kind is 'lion': it must be \"sgd\" or \"adamw\""));
  config = Sgd();
  config.set_clip_norm(-1);
  EXPECT_THAT(std::string(CheckOptimizer(config).message()), HasSubstr("optimizer.clip_norm"));
  Graph graph("train");
  EXPECT_THAT(std::string(RecordUpdate(graph, Fill(graph, {DType::kF32, {}}, 1), Sgd()).message()),
              HasSubstr("no parameter"));
}

}  // namespace
}  // namespace tessera
