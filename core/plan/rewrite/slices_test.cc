// Graphs before and after their parameters are sliced.
#include "core/plan/rewrite/slices.h"

#include <string>
#include <vector>

#include "core/ops/ops.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/micro_batches.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

absl::StatusOr<std::vector<Graph>> Sliced(const std::string& stage,
                                          const std::vector<Graph>& graphs) {
  const Plan plan = ParsePlan("stages { " + stage + " }");
  const auto decisions = FindSlices(plan.stages(0), graphs);
  if (!decisions.ok()) return decisions.status();
  return SliceGraphs(graphs, *decisions);
}

std::vector<Graph> Alone(Graph graph) {
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return graphs;
}

Graph SlicedGraph(const std::string& stage, Graph graph) {
  auto sliced = Sliced(stage, Alone(std::move(graph)));
  EXPECT_TRUE(sliced.ok()) << sliced.status();
  return sliced.ok() ? std::move(sliced->front()) : Graph("none");
}

// Sums the outputs of a layer, whose weight [4, 3] is trained by SGD with momentum.
Graph LayerTraining() {
  Graph graph("train");
  const Tensor x = graph.Input("x", F32({2, 3}), 0);
  const Tensor w = graph.Parameter("w", {4, 3}, Initializer::Constant(1));
  const Tensor y = Square(Linear(x, w));
  const Tensor loss = ReduceSum(y, {0, 1});
  auto gradients = RecordGradients(graph, loss, {w});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.set_phase(Phase::kUpdate);
  const Tensor momentum =
      graph.DeclareState("w.momentum", w.type(), Role::kOptimizerState, Initializer::Constant(0));
  const Tensor norm = Sqrt(SumSquares(gradients->front()));
  const Tensor lr = graph.Input("lr", {DType::kF32, {}});
  const SgdResult result =
      SgdUpdate(w, gradients->front(), momentum, lr, norm, AllFinite({norm}), {0.9, 0});
  graph.SetState("w", result.parameter);
  graph.SetState("w.momentum", result.momentum);
  graph.SetOutput("loss", loss);
  return graph;
}

TEST(SlicesTest, AWeightIsUsedAndUpdatedSliceBySlice) {
  const Graph graph = SlicedGraph("slice { path: 'w' dimension: 0 count: 2 }", LayerTraining());
  EXPECT_EQ(graph.ToString(), R"(graph train
input %x: f32[2, 3] batch_dim=0
input %lr: f32[]
parameter %w[0:2]: f32[2, 3] {constant=1.0}
parameter %w[2:4]: f32[2, 3] {constant=1.0}
optimizer %w.momentum[0:2]: f32[2, 3] {constant=0.0}
optimizer %w.momentum[2:4]: f32[2, 3] {constant=0.0}
%matmul[0:2]: f32[2, 2] = matmul(%x, %w[0:2]) {transpose_a=false, transpose_b=true}
%matmul[2:4]: f32[2, 2] = matmul(%x, %w[2:4]) {transpose_a=false, transpose_b=true}
%matmul: f32[2, 4] = concat(%matmul[0:2], %matmul[2:4]) {axis=1}
%square: f32[2, 4] = square(%matmul)
%reduce_sum: f32[] = reduce_sum(%square) {axes=[0, 1], keep_dims=false}
%reduce_sum.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%square.grad: f32[2, 4] = expand(%reduce_sum.grad) {shape=[2, 4]}
%square.backward.fill: f32[] = fill() {dtype=f32, shape=[], value=2.0}
%square.backward.multiply: f32[2, 4] = multiply(%square.grad, %square.backward.fill)
%matmul.grad: f32[2, 4] = multiply(%square.backward.multiply, %matmul)
%matmul.grad[0:2]: f32[2, 2], %matmul.grad[2:4]: f32[2, 2] = split(%matmul.grad) {axis=1, sizes=[2, 2]}
%w.grad[0:2]: f32[2, 3] = matmul(%matmul.grad[0:2], %x) {transpose_a=true, transpose_b=false}
%w.grad[2:4]: f32[2, 3] = matmul(%matmul.grad[2:4], %x) {transpose_a=true, transpose_b=false}
%sum_squares[0:2]: f32[] = sum_squares(%w.grad[0:2])
%sum_squares[2:4]: f32[] = sum_squares(%w.grad[2:4])
%sum_squares: f32[] = add(%sum_squares[0:2], %sum_squares[2:4])
%sqrt: f32[] = sqrt(%sum_squares)
%all_finite: u8[] = all_finite(%sqrt)
%sgd_update[0:2]: f32[2, 3], %sgd_update.momentum[0:2]: f32[2, 3] = sgd_update(%w[0:2], %w.grad[0:2], %w.momentum[0:2], %lr, %sqrt, %all_finite) {momentum=0.9, weight_decay=0.0}
%sgd_update[2:4]: f32[2, 3], %sgd_update.momentum[2:4]: f32[2, 3] = sgd_update(%w[2:4], %w.grad[2:4], %w.momentum[2:4], %lr, %sqrt, %all_finite) {momentum=0.9, weight_decay=0.0}
leave %w[0:2] = %sgd_update[0:2]
leave %w[2:4] = %sgd_update[2:4]
leave %w.momentum[0:2] = %sgd_update.momentum[0:2]
leave %w.momentum[2:4] = %sgd_update.momentum[2:4]
output loss = %reduce_sum
)");
}

TEST(SlicesTest, PartialResultsAreAddedUpInOrder) {
  const Graph graph = SlicedGraph("slice { path: 'w' dimension: 1 count: 3 }", LayerTraining());
  EXPECT_EQ(
      Body(graph),
      R"(%x[0:1]: f32[2, 1], %x[1:2]: f32[2, 1], %x[2:3]: f32[2, 1] = split(%x) {axis=1, sizes=[1, 1, 1]}
%matmul[0:1]: f32[2, 4] = matmul(%x[0:1], %w[0:1]) {transpose_a=false, transpose_b=true}
%matmul[1:2]: f32[2, 4] = matmul(%x[1:2], %w[1:2]) {transpose_a=false, transpose_b=true}
%matmul[0:2]: f32[2, 4] = add(%matmul[0:1], %matmul[1:2])
%matmul[2:3]: f32[2, 4] = matmul(%x[2:3], %w[2:3]) {transpose_a=false, transpose_b=true}
%matmul: f32[2, 4] = add(%matmul[0:2], %matmul[2:3])
%square: f32[2, 4] = square(%matmul)
%reduce_sum: f32[] = reduce_sum(%square) {axes=[0, 1], keep_dims=false}
%reduce_sum.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%square.grad: f32[2, 4] = expand(%reduce_sum.grad) {shape=[2, 4]}
%square.backward.fill: f32[] = fill() {dtype=f32, shape=[], value=2.0}
%square.backward.multiply: f32[2, 4] = multiply(%square.grad, %square.backward.fill)
%matmul.grad: f32[2, 4] = multiply(%square.backward.multiply, %matmul)
%x[0:1]_1: f32[2, 1], %x[1:2]_1: f32[2, 1], %x[2:3]_1: f32[2, 1] = split(%x) {axis=1, sizes=[1, 1, 1]}
%w.grad[0:1]: f32[4, 1] = matmul(%matmul.grad, %x[0:1]_1) {transpose_a=true, transpose_b=false}
%w.grad[1:2]: f32[4, 1] = matmul(%matmul.grad, %x[1:2]_1) {transpose_a=true, transpose_b=false}
%w.grad[2:3]: f32[4, 1] = matmul(%matmul.grad, %x[2:3]_1) {transpose_a=true, transpose_b=false}
%sum_squares[0:1]: f32[] = sum_squares(%w.grad[0:1])
%sum_squares[1:2]: f32[] = sum_squares(%w.grad[1:2])
%sum_squares[0:2]: f32[] = add(%sum_squares[0:1], %sum_squares[1:2])
%sum_squares[2:3]: f32[] = sum_squares(%w.grad[2:3])
%sum_squares: f32[] = add(%sum_squares[0:2], %sum_squares[2:3])
%sqrt: f32[] = sqrt(%sum_squares)
%all_finite: u8[] = all_finite(%sqrt)
%sgd_update[0:1]: f32[4, 1], %sgd_update.momentum[0:1]: f32[4, 1] = sgd_update(%w[0:1], %w.grad[0:1], %w.momentum[0:1], %lr, %sqrt, %all_finite) {momentum=0.9, weight_decay=0.0}
%sgd_update[1:2]: f32[4, 1], %sgd_update.momentum[1:2]: f32[4, 1] = sgd_update(%w[1:2], %w.grad[1:2], %w.momentum[1:2], %lr, %sqrt, %all_finite) {momentum=0.9, weight_decay=0.0}
%sgd_update[2:3]: f32[4, 1], %sgd_update.momentum[2:3]: f32[4, 1] = sgd_update(%w[2:3], %w.grad[2:3], %w.momentum[2:3], %lr, %sqrt, %all_finite) {momentum=0.9, weight_decay=0.0}
leave %w[0:1] = %sgd_update[0:1]
leave %w[1:2] = %sgd_update[1:2]
leave %w[2:3] = %sgd_update[2:3]
leave %w.momentum[0:1] = %sgd_update.momentum[0:1]
leave %w.momentum[1:2] = %sgd_update.momentum[1:2]
leave %w.momentum[2:3] = %sgd_update.momentum[2:3]
output loss = %reduce_sum
)");
}

TEST(SlicesTest, FieldsSayWhatSlicesAreOf) {
  const Graph graph = SlicedGraph("slice { path: 'w' dimension: 0 count: 2 }", LayerTraining());
  const State& state = *graph.FindState("w.momentum[2:4]");
  EXPECT_EQ(state.origin, "w.momentum");
  EXPECT_EQ(state.type, F32({2, 3}));
  EXPECT_EQ(state.region->start, Shape({2, 0}));
  EXPECT_EQ(state.region->global, Shape({4, 3}));
  EXPECT_EQ(graph.value(state.input).region->start, state.region->start);
  EXPECT_EQ(graph.value(state.updated).region->start, state.region->start);
  const Value& gradient = graph.value(graph.FindValue("w.grad[2:4]"));
  EXPECT_EQ(graph.value(gradient.complete_gradient_of).path, "w[2:4]");
  const Op& product = graph.op(graph.value(graph.FindValue("matmul[2:4]")).producer);
  EXPECT_EQ(product.slice_of.str(), "matmul");
  EXPECT_EQ(product.slice, 1);
  EXPECT_EQ(product.origin.str(), "matmul[2:4]");
  EXPECT_EQ(graph.op(gradient.producer).gradient_of,
            graph.value(graph.FindValue("matmul[2:4]")).producer);
  EXPECT_EQ(graph.op(graph.value(graph.FindValue("matmul")).producer).path, "matmul.concat");
}

// A parameter that is rearranged before it is used: only one slice of it need be gathered at a
// time.
TEST(SlicesTest, AViewOfASliceIsMadeRightBeforeItsReader) {
  Graph graph("evaluate");
  const Tensor x = graph.Input("x", F32({2, 3}), 0);
  const Tensor w = graph.Parameter("w", {2, 2, 3}, Initializer::Constant(1));
  graph.SetOutput("y", Linear(x, Reshape(w, {4, 3})));
  const Graph sliced = SlicedGraph("slice { path: 'w' dimension: 0 count: 2 }", std::move(graph));
  EXPECT_EQ(Body(sliced), R"(%reshape[0:1]: f32[2, 3] = reshape(%w[0:1]) {shape=[2, 3]}
%matmul[0:1]: f32[2, 2] = matmul(%x, %reshape[0:1]) {transpose_a=false, transpose_b=true}
%reshape[1:2]: f32[2, 3] = reshape(%w[1:2]) {shape=[2, 3]}
%matmul[1:2]: f32[2, 2] = matmul(%x, %reshape[1:2]) {transpose_a=false, transpose_b=true}
%matmul: f32[2, 4] = concat(%matmul[0:1], %matmul[1:2]) {axis=1}
output y = %matmul
)");
}

TEST(SlicesTest, FirstValuesAreDrawnInSlices) {
  Graph graph("initialise");
  State w;
  w.path = "w";
  w.type = F32({4, 3});
  graph.WriteState(w, RandomNormal(graph, w.type, 0, 1, "w"));
  const Graph sliced = SlicedGraph("slice { path: 'w' dimension: 1 count: 2 }", std::move(graph));
  EXPECT_EQ(
      Body(sliced),
      R"(%random_normal[0:2]: f32[4, 2] = random_normal(%seed) {dtype=f32, global_shape=[4, 3], mean=0.0, random_path="w", shape=[4, 2], start=[0, 0], stddev=1.0}
%random_normal[2:3]: f32[4, 1] = random_normal(%seed) {dtype=f32, global_shape=[4, 3], mean=0.0, random_path="w", shape=[4, 1], start=[0, 2], stddev=1.0}
leave %w[0:2] = %random_normal[0:2]
leave %w[2:3] = %random_normal[2:3]
)");
}

std::string Error(const std::string& stage, Graph graph) {
  const auto sliced = Sliced(stage, Alone(std::move(graph)));
  EXPECT_EQ(sliced.status().code(), absl::StatusCode::kInvalidArgument) << sliced.status();
  return std::string(sliced.status().message());
}

TEST(SlicesTest, ChoicesThatDoNotFitAreRefused) {
  const auto error = [](const std::string& stage) { return Error(stage, LayerTraining()); };
  EXPECT_EQ(error("slice { path: 'v' count: 2 }"),
            "the Plan's slice 'v': no parameter of the graphs 'train' matches; did you mean 'w'?");
  EXPECT_EQ(error("slice { path: 'x' count: 2 }"),
            "the Plan's slice 'x': 'x' has the role 'input'; parameters are sliced, and their "
            "optimizer state with them");
  EXPECT_EQ(error("slice { path: 'w.momentum' count: 2 }"),
            "the Plan's slice 'w.momentum': 'w.momentum' has the role 'optimizer'; parameters are "
            "sliced, and their optimizer state with them");
  EXPECT_EQ(error("slice { path: 'w' dimension: 2 count: 2 }"),
            "the Plan's slice 'w': 'w' is [4, 3], without a dimension 2");
  EXPECT_EQ(error("slice { path: 'w' dimension: -1 count: 2 }"),
            "the Plan's slice 'w': 'w' is [4, 3], without a dimension -1");
  EXPECT_EQ(error("slice { path: 'w' }"),
            "the Plan's slice 'w': 'w' would have 0 slices; there must be at least 2");
  EXPECT_EQ(error("slice { path: 'w' count: 3 }"),
            "the Plan's slice 'w': 'w' has 4 elements along dimension 0, for which 2 slices of 2 "
            "are enough; of 3 some would be empty");
  EXPECT_EQ(error("slice { path: 'w' dimension: 1 count: 9223372036854775807 }"),
            "the Plan's slice 'w': 'w' has 3 elements along dimension 1, for which 3 slices of 1 "
            "are enough; of 9223372036854775807 some would be empty");
  EXPECT_EQ(error("slice { path: 'w' count: 2 } slice { path: 'w*' count: 2 }"),
            "the Plan's slice 'w*': 'w' is named by slice 'w' too; one of them must go");
}

TEST(SlicesTest, AnOperatorWithoutASignatureForSlicesIsNamed) {
  Graph graph("evaluate");
  const Tensor x = graph.Input("x", F32({2, 4}), 0);
  const Tensor w = graph.Parameter("w", {4}, Initializer::Constant(1));
  const Tensor b = graph.Parameter("b", {4}, Initializer::Constant(1));
  graph.SetOutput("y", LayerNorm(x, w, b, 1e-5));
  EXPECT_EQ(Error("slice { path: 'w' count: 2 }", std::move(graph)),
            "the Plan's slice 'w': operator 'layer_norm' (layer_norm) has no signature that takes "
            "'w' as S(0); it has B; S(0), B, B -> S(0), S(0), S(0)");
}

TEST(SlicesTest, AnOperatorOfTwoSlicedParametersIsNamed) {
  Graph graph("evaluate");
  const Tensor a = graph.Parameter("a", {4}, Initializer::Constant(1));
  const Tensor b = graph.Parameter("b", {4}, Initializer::Constant(1));
  graph.SetOutput("y", Add(a, b));
  EXPECT_EQ(Error("slice { path: 'a|b' count: 2 }", std::move(graph)),
            "the Plan's slices: operator 'add' (add) reads 'a' and 'b', which are slices of two "
            "parameters; slice one of them only");
}

}  // namespace
}  // namespace tessera
