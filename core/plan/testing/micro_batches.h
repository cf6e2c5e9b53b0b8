// For tests: Graphs that are split into micro-batches, and their text.
#ifndef TESSERA_CORE_PLAN_TESTING_MICRO_BATCHES_H_
#define TESSERA_CORE_PLAN_TESTING_MICRO_BATCHES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/ops/ops.h"
#include "core/plan/rewrite/micro_batches.h"
#include "gtest/gtest.h"

namespace tessera {

inline TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

inline Graph SplitGraph(const Graph& graph, int64_t micro_batches) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  auto split = SplitIntoMicroBatches(graph, micro_batches);
  EXPECT_TRUE(split.ok()) << split.status();
  return split.ok() ? *std::move(split) : Graph("none");
}

// Returns the lines of operators, updated states and outputs.
inline std::string Body(const Graph& graph) {
  std::string body;
  for (absl::string_view line : absl::StrSplit(graph.ToString(), '\n')) {
    if (absl::StartsWith(line, "%") || absl::StartsWith(line, "leave") ||
        absl::StartsWith(line, "output")) {
      absl::StrAppend(&body, line, "\n");
    }
  }
  return body;
}

// Records the mean of (x w^T)^2 over the valid rows, its gradient, and an update of w.
inline Graph TrainingGraph(int64_t rows) {
  Graph graph("train");
  const Tensor x = graph.Input("x", F32({rows, 3}), 0);
  const Tensor labels = graph.Input("labels", {DType::kI32, {rows}}, 0);
  const Tensor w = graph.Parameter("w", {1, 3}, Initializer::Constant(1));
  const Tensor y = Reshape(Linear(x, w), {rows});
  const Tensor mask = ValidMask(labels);
  const Tensor total = ReduceSum(Multiply(Square(y), mask), {0});
  const Tensor count = ReduceSum(mask, {0});
  const Tensor loss = Divide(total, count);
  auto gradients = RecordGradients(graph, loss, {w});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.set_phase(Phase::kUpdate);
  graph.SetState("w", Subtract(w, gradients->front()));
  graph.SetOutput("loss", loss);
  return graph;
}

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_TESTING_MICRO_BATCHES_H_
