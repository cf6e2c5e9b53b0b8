// Tests the text form and the fingerprints made from it.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/graph/graph.h"
#include "core/graph/testing/operators.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using testing_operators::Halve;
using testing_operators::Plus;
using testing_operators::Times;

TEST(GraphTextTest, ShowsEverythingThatIsComputed) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4}}, 0);
  graph.Input("lr", {DType::kF32, {}});
  const Tensor w = graph.Parameter("w", {4}, Initializer::Normal(0, 0.02));
  graph.DeclareState("frozen", {DType::kF32, {4}}, Role::kParameter, Initializer::Constant(1),
                     /*trainable=*/false);
  const Tensor m = graph.DeclareState("w.momentum", {DType::kF32, {4}}, Role::kOptimizerState,
                                      Initializer::Constant(0));
  graph.DeclareState("cache", {DType::kBF16, {2, 4}}, Role::kCache, Initializer::Constant(0));
  const Tensor y = Plus(Times(x, w), m);
  const std::vector<Tensor> halves = Halve(y);
  graph.AddOrderEdge(OpId(2), OpId(0));
  testing_operators::Constant(graph, {DType::kF64, {}}, 0.5);
  graph.WriteState({"seen", halves[0].type(), Role::kParameter, Initializer::Constant(0)},
                   halves[0]);
  graph.SetState("w.momentum", y);
  graph.SetOutput("high", halves[1]);
  EXPECT_EQ(graph.ToString(), R"(graph train
input %x: f32[4] batch_dim=0
input %lr: f32[]
parameter %w: f32[4] {mean=0.0, stddev=0.02}
parameter %frozen: f32[4] {constant=1.0} frozen
optimizer %w.momentum: f32[4] {constant=0.0}
cache %cache: bf16[2, 4] {constant=0.0}
parameter %seen: f32[2] {constant=0.0} written
%times: f32[4] = times(%x, %w)
%plus: f32[4] = plus(%times, %w.momentum)
%halve.low: f32[2], %halve.high: f32[2] = halve(%plus) after times
%constant: f64[] = constant() {dtype=f64, shape=[], value=0.5}
leave %w.momentum = %plus
leave %seen = %halve.low
output high = %halve.high
)");
}

// Two equal blocks, and a third one that differs: it adds a value of the previous block to itself.
Graph Blocks(absl::string_view name = "g") {
  Graph graph(std::string(name.data(), name.size()));
  Tensor x = graph.Input("x", {DType::kF32, {4}}, 0);
  for (int i = 0; i < 3; ++i) {
    Scope block(&graph, absl::StrCat("blocks.", i), Scope::kBlock);
    const Tensor w = graph.Parameter("w", {4}, Initializer::Constant(1));
    const Tensor y = Times(x, w);
    graph.SetAttribute(graph.value(y.id()).producer, "random_path", graph.value(y.id()).path);
    x = i < 2 ? Plus(x, y) : Plus(y, y);
  }
  graph.SetOutput("y", x);
  return graph;
}

TEST(FingerprintTest, DoesNotDependOnTheGraphsName) {
  EXPECT_EQ(Blocks("a").Fingerprint(), Blocks("b").Fingerprint());
  EXPECT_EQ(Blocks().Fingerprint().size(), 32u);
}

// The fingerprint is the same on every machine and with every compiler.
TEST(FingerprintTest, IsAFixedValueOnEveryMachine) {
  Graph graph("g");
  graph.SetOutput("y", graph.Input("x", {DType::kF32, {4}}, 0));
  EXPECT_EQ(graph.Fingerprint(), "dab7fd72f195f01c896ff4de0e78a55a");
}

TEST(FingerprintTest, ChangesWithEveryPartOfTheGraph) {
  const std::string fingerprint = Blocks().Fingerprint();
  Graph attribute = Blocks();
  attribute.SetAttribute(OpId(0), "axis", int64_t{1});
  EXPECT_NE(attribute.Fingerprint(), fingerprint);
  Graph edge = Blocks();
  edge.AddOrderEdge(OpId(3), OpId(0));
  EXPECT_NE(edge.Fingerprint(), fingerprint);
  Graph output = Blocks();
  output.SetOutput("x", output.tensor(output.FindValue("x")));
  EXPECT_NE(output.Fingerprint(), fingerprint);
  Graph state = Blocks();
  state.Parameter("v", {4}, Initializer::Constant(1));
  EXPECT_NE(state.Fingerprint(), fingerprint);
}

TEST(FingerprintTest, EqualBlocksHaveEqualOnes) {
  const Graph graph = Blocks();
  EXPECT_EQ(graph.BlockFingerprint("blocks.0"), graph.BlockFingerprint("blocks.1"));
  EXPECT_NE(graph.BlockFingerprint("blocks.1"), graph.BlockFingerprint("blocks.2"));
}

}  // namespace
}  // namespace tessera
