// Checks the running statistics of batch norm: what a training step makes of them, and what
// evaluation does with them.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "core/runtime/run_graph.h"
#include "core/train/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Values = std::map<std::string, HostTensor>;

constexpr int64_t kRows = 6, kChannels = 2;
constexpr double kEps = 1e-5;

struct Normalization {
  bool training = true;
  int64_t groups = 1;
  bool in_loss = true;  // whether the loss depends on what is normalized
};

// Records batch norm of x, where rows whose label is kIgnoreIndex do not count, and returns the
// loss.
Tensor RecordLoss(Graph& graph, const Normalization& normalization) {
  const Tensor x = graph.Input("x", {DType::kF32, {kRows, kChannels}}, 0);
  const Tensor labels = graph.Input("labels", {DType::kI32, {kRows}}, 0);
  const Tensor gain = graph.Parameter("gain", {kChannels, 2}, Initializer::Constant(1));
  Tensor y;
  {
    Scope scope(&graph, "norm");
    const Tensor weight = graph.Parameter("weight", {kChannels}, Initializer::Constant(1));
    const Tensor bias = graph.Bias("bias", {kChannels});
    const RunningMoments running = DeclareRunningMoments(graph, kChannels);
    RunningBatchNormOptions options;
    options.batch.groups = normalization.groups;
    if (normalization.training) {
      const Tensor valid = ValidMask(labels);
      y = BatchNormUpdating(x, weight, bias, running, valid, options);
    } else {
      y = BatchNormWith(x, weight, bias, running.mean, running.variance, kEps);
    }
  }
  graph.SetOutput("y", y);
  return SumSquares(normalization.in_loss ? Relu(MatMul(y, gain)) : gain);
}

Graph Train(const Normalization& normalization, const std::string& optimizer = "sgd") {
  Graph graph("train");
  const Tensor loss = RecordLoss(graph, normalization);
  OptimizerConfig config;
  config.set_kind(optimizer);
  config.set_weight_decay(0.5);
  config.set_clip_norm(1);
  const absl::Status status = RecordUpdate(graph, loss, config);
  EXPECT_TRUE(status.ok()) << status;
  return graph;
}

// The first state of a run, and its inputs. Rows 4 and 5 do not count.
Values First() {
  Values given;
  given["x"] = {{kRows, kChannels}, {1, -2, 4, 0.5, -3, 7, 2, 2, 100, -100, 50, 9}};
  given["labels"] = {{kRows}, {0, 1, 2, 3, kIgnoreIndex, kIgnoreIndex}};
  given["gain"] = {{kChannels, 2}, {1, 2, -1, 0.5}};
  given["norm.weight"] = {{kChannels}, {1.5, -0.5}};
  given["norm.bias"] = {{kChannels}, {0.25, 1}};
  given["norm.running_mean"] = {{kChannels}, {0.5, -1}};
  given["norm.running_variance"] = {{kChannels}, {2, 3}};
  given["optimizer.step"].values = {0};
  given["lr"].values = {0.1};
  return given;
}

Values RunStep(const Graph& graph, const Values& given) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  auto result = RunGraph(graph, *backend, given);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

struct Moments {
  double mean = 0, variance = 0;
};

// Returns the mean and the unbiased variance of a channel over rows [begin, end) of x.
Moments MomentsOf(const Values& given, int64_t begin, int64_t end, int64_t channel) {
  const auto element = [&](int64_t row) { return given.at("x").values[row * kChannels + channel]; };
  Moments moments;
  const auto rows = static_cast<double>(end - begin);
  for (int64_t row = begin; row < end; ++row) moments.mean += element(row) / rows;
  for (int64_t row = begin; row < end; ++row) {
    moments.variance += std::pow(element(row) - moments.mean, 2) / std::max(rows - 1, 1.0);
  }
  return moments;
}

// Expects that the step has moved the running values of each channel by a tenth.
void ExpectMoved(const Values& given, const Values& after, const std::vector<Moments>& batch) {
  for (int64_t c = 0; c < kChannels; ++c) {
    EXPECT_NEAR(after.at("norm.running_mean").values[c],
                0.9 * given.at("norm.running_mean").values[c] + 0.1 * batch[c].mean, 1e-12);
    EXPECT_NEAR(after.at("norm.running_variance").values[c],
                0.9 * given.at("norm.running_variance").values[c] + 0.1 * batch[c].variance, 1e-12);
  }
}

TEST(RunningStatisticsTest, AStepMovesThemByATenthTowardsThoseOfTheValidRows) {
  const Values given = First();
  const Values after = RunStep(Train({}), given);
  EXPECT_EQ(after.at("finite").values[0], 1);
  ExpectMoved(given, after, {MomentsOf(given, 0, 4, 0), MomentsOf(given, 0, 4, 1)});
}

// Groups of two rows: the last one has no valid row, and does not count.
TEST(RunningStatisticsTest, WithGroupsTheyAreThoseOfTheGroupsOnAverage) {
  const Values given = First();
  const Values after = RunStep(Train({.groups = 3}), given);
  std::vector<Moments> average;
  for (int64_t c = 0; c < kChannels; ++c) {
    const Moments a = MomentsOf(given, 0, 2, c), b = MomentsOf(given, 2, 4, c);
    average.push_back({(a.mean + b.mean) / 2, (a.variance + b.variance) / 2});
  }
  ExpectMoved(given, after, average);
}

TEST(RunningStatisticsTest, ALayerThatIsUsedTwiceUpdatesThemTwice) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {2, 1}}, 0);
  const Tensor weight = graph.Parameter("weight", {1}, Initializer::Constant(1));
  const Tensor bias = graph.Bias("bias", {1});
  const RunningMoments running = DeclareRunningMoments(graph, 1);
  const Tensor y = BatchNormUpdating(x, weight, bias, running);
  const Tensor doubled = Scale(x, 2);
  const Tensor z = BatchNormUpdating(doubled, weight, bias, running);
  graph.SetOutput("loss", Add(SumSquares(y), SumSquares(z)));
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  Values given;
  given["x"] = {{2, 1}, {3, 5}};
  given["weight"] = {{1}, {1}};
  given["bias"] = {{1}, {0}};
  given["running_mean"] = {{1}, {1}};
  given["running_variance"] = {{1}, {1}};
  const Values after = RunStep(graph, given);
  EXPECT_NEAR(after.at("running_mean").values[0], 0.9 * (0.9 * 1 + 0.1 * 4) + 0.1 * 8, 1e-12);
  EXPECT_NEAR(after.at("running_variance").values[0], 0.9 * (0.9 * 1 + 0.1 * 2) + 0.1 * 8, 1e-12);
}

TEST(RunningStatisticsTest, AStepThatIsNotFiniteChangesNothing) {
  for (const double invalid : {std::nan(""), HUGE_VAL}) {
    // If the loss does not show that a statistic is not finite, the statistic does.
    for (const bool in_loss : {true, false}) {
      Values given = First();
      given["x"].values[3] = invalid;
      const Graph graph = Train({.in_loss = in_loss});
      const Values after = RunStep(graph, given);
      EXPECT_EQ(after.at("finite").values[0], 0) << invalid;
      for (const State& state : graph.states()) {
        EXPECT_EQ(after.at(state.path).values, given.at(state.path).values) << state.path;
      }
    }
  }
}

TEST(RunningStatisticsTest, EvaluationNormalizesByThem) {
  Values given = First();
  const Graph evaluate = [] {
    Graph graph("evaluate");
    graph.SetOutput("loss", RecordLoss(graph, {.training = false}));
    EXPECT_TRUE(graph.status().ok()) << graph.status();
    return graph;
  }();
  const Values in_training = RunStep(Train({}), given);
  for (const char* path : {"norm.running_mean", "norm.running_variance"}) {
    given[path] = in_training.at(path);
  }
  const Values in_evaluation = RunStep(evaluate, given);
  for (int64_t i = 0; i < kRows * kChannels; ++i) {
    const int64_t c = i % kChannels;
    const auto of_channel = [&](const char* path) { return given.at(path).values[c]; };
    const double expected = (given.at("x").values[i] - of_channel("norm.running_mean")) /
                                std::sqrt(of_channel("norm.running_variance") + kEps) *
                                of_channel("norm.weight") +
                            of_channel("norm.bias");
    EXPECT_NEAR(in_evaluation.at("y").values[i], expected, 1e-12) << i;
    EXPECT_GT(std::abs(in_training.at("y").values[i] - expected), 1e-2) << i;
  }
  for (const char* path : {"norm.running_mean", "norm.running_variance"}) {
    EXPECT_EQ(in_evaluation.at(path).values, given.at(path).values) << path;
  }
}

TEST(RunningStatisticsTest, TheOptimizerLeavesThemAlone) {
  const Graph graph = Train({}, "adamw");
  for (const char* name : {"running_mean", "running_variance"}) {
    const State* const state = graph.FindState(std::string("norm.") + name);
    ASSERT_NE(state, nullptr);
    EXPECT_EQ(state->role, Role::kRunningStatistic);
    EXPECT_EQ(graph.value(state->updated).role, Role::kRunningStatistic);
    EXPECT_EQ(graph.op(graph.value(state->updated).producer).kind->name(), "select");
    EXPECT_EQ(graph.op(graph.value(state->updated).producer).phase, Phase::kUpdate);
    EXPECT_EQ(graph.FindValue(state->path + ".grad"), kNone);
    EXPECT_EQ(graph.FindState(state->path + ".adam_m"), nullptr);
  }
  int statistics = 0;  // what the model had set as updated is none
  for (const Value& value : graph.values())
    statistics += value.role == Role::kRunningStatistic ? 1 : 0;
  EXPECT_EQ(statistics, 4);
  const std::string text = graph.ToString();
  EXPECT_THAT(text, HasSubstr("\nstatistic %norm.running_mean: f32[2] {constant=0.0}\n"));
  EXPECT_THAT(text, HasSubstr("\nstatistic %norm.running_variance: f32[2] {constant=1.0}\n"));
  EXPECT_THAT(text, HasSubstr("\nleave %norm.running_mean = %norm.running_mean.select\n"));
  EXPECT_THAT(text, Not(HasSubstr("running_mean.adam")));
}

TEST(RunningStatisticsTest, WhatIsNoStateIsNamed) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {2, 1}}, 0);
  const Tensor weight = graph.Parameter("weight", {1}, Initializer::Constant(1));
  const Tensor bias = graph.Bias("bias", {1});
  const Tensor zero = Fill(graph, {DType::kF32, {1}}, 0);
  BatchNormUpdating(x, weight, bias, {zero, zero});
  EXPECT_EQ(std::string(graph.status().message()),
            "batch_norm: 'fill' is no state that could keep a running statistic");
}

}  // namespace
}  // namespace tessera
