// Results of small Graphs whose states exchange values.
#include "core/runtime/run_graph.h"

#include <memory>

#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;

// Regression test for an internal error: the updated value of a is at the address at which b is
// updated.
TEST(RunGraphTest, AStateMayBecomeTheInputOfAnotherThatIsUpdatedInPlace) {
  Graph graph("step");
  Tensor a = graph.Parameter("a", {3}, Initializer::Constant(0));
  Tensor b = graph.Parameter("b", {3}, Initializer::Constant(0));
  graph.SetState("a", b);
  graph.SetState("b", Add(b, a));
  graph.SetOutput("old_b", b);
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto result =
      RunGraph(graph, *backend, {{"a", {{3}, {1, 2, 3}}}, {"b", {{3}, {10, 20, 30}}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("a").values, ElementsAre(10, 20, 30));
  EXPECT_THAT(result->at("b").values, ElementsAre(11, 22, 33));
  EXPECT_THAT(result->at("old_b").values, ElementsAre(10, 20, 30));
}

TEST(RunGraphTest, TwoStatesMayChangePlaces) {
  Graph graph("step");
  Tensor a = graph.Parameter("a", {2}, Initializer::Constant(0));
  Tensor b = graph.Parameter("b", {2}, Initializer::Constant(0));
  graph.SetState("a", b);
  graph.SetState("b", a);
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const auto result = RunGraph(graph, *backend, {{"a", {{2}, {1, 2}}}, {"b", {{2}, {10, 20}}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->at("a").values, ElementsAre(10, 20));
  EXPECT_THAT(result->at("b").values, ElementsAre(1, 2));
}

}  // namespace
}  // namespace tessera
