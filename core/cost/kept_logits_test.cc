#include "core/cost/kept_logits.h"

#include "core/graph/autograd.h"
#include "core/ops/ops.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

Graph Head(int64_t channels, bool has_gradient) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, channels}}, 0);
  const Tensor targets = graph.Input("targets", {DType::kI32, {4}}, 0);
  const Tensor w = graph.Parameter("w", {50, channels}, Initializer::Constant(1));
  const Tensor loss = LinearCrossEntropy(x, w, targets).mean;
  if (has_gradient) {
    const auto gradients = RecordGradients(graph, loss, {w});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
  }
  return graph;
}

TEST(KeptLogitsTest, ItPaysIfALogitIsASumOverManyChannels) {
  EXPECT_TRUE(KeepingLogitsPays(Head(768, true), kUsualRates));
  EXPECT_FALSE(KeepingLogitsPays(Head(40, true), kUsualRates));
  EXPECT_TRUE(KeepingLogitsPays(Head(41, true), kUsualRates));
  // An H100: 800 TFLOP/s, 3.3 TB/s.
  EXPECT_FALSE(KeepingLogitsPays(Head(768, true), {8e14, 3.3e12}));
  EXPECT_TRUE(KeepingLogitsPays(Head(1600, true), {8e14, 3.3e12}));
}

TEST(KeptLogitsTest, WithoutABackwardPassThereIsNothingToKeep) {
  EXPECT_FALSE(KeepingLogitsPays(Head(768, false), kUsualRates));
}

}  // namespace
}  // namespace tessera
