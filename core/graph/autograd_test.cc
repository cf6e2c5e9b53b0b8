#include "core/graph/autograd.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/graph/testing/operators.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using testing_operators::Halve;
using testing_operators::kAutogradOperators;
using testing_operators::Plus;
using testing_operators::Round;
using testing_operators::Score;
using testing_operators::Times;

class AutogradTest : public ::testing::Test {
 protected:
  Tensor Loss(Tensor x) {
    const Tensor labels = graph_.Input("labels", {DType::kI32, x.shape()});
    return Score(x, labels);
  }

  std::vector<Tensor> Gradients(Tensor loss, absl::Span<const Tensor> targets) {
    auto gradients = AppendGradients(graph_, loss, targets, kAutogradOperators);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() ? *gradients : std::vector<Tensor>(targets.size());
  }

  std::string Operators() const {
    std::string lines;
    for (absl::string_view line : absl::StrSplit(graph_.ToString(), '\n')) {
      if (absl::StartsWith(line, "%")) absl::StrAppend(&lines, line, "\n");
    }
    return lines;
  }

  Graph graph_{"g"};
  Tensor x_ = graph_.Input("x", {DType::kF32, {4}}, 0);
  Tensor w_ = graph_.Parameter("w", {4}, Initializer::Constant(1));
};

TEST_F(AutogradTest, AddsUpTheGradientsOfAValueThatIsUsedTwice) {
  const Tensor y = Times(x_, w_);
  const Tensor loss = Loss(Plus(Times(y, y), w_));
  const std::vector<Tensor> gradients = Gradients(loss, {w_});
  EXPECT_EQ(graph_.value(gradients[0].id()).path, "w.grad");
  EXPECT_EQ(Operators(), R"(%times: f32[4] = times(%x, %w)
%times_1: f32[4] = times(%times, %times)
%plus: f32[4] = plus(%times_1, %w)
%score: f32[] = score(%plus, %labels)
%score.grad: f32[] = constant() {dtype=f32, shape=[], value=1.0}
%plus.grad: f32[4] = spread(%score.grad, %plus)
%times_1.backward.times: f32[4] = times(%plus.grad, %times)
%times_1.backward.times_1: f32[4] = times(%plus.grad, %times)
%times.grad: f32[4] = plus(%times_1.backward.times, %times_1.backward.times_1)
%times.backward.times: f32[4] = times(%times.grad, %x)
%w.grad: f32[4] = plus(%plus.grad, %times.backward.times)
)");
}

TEST_F(AutogradTest, GradientsLieInTheScopeOfTheirOperator) {
  Tensor y;
  {
    Scope block(&graph_, "blocks.0", Scope::kBlock);
    y = Times(x_, w_);
  }
  Gradients(Loss(y), {w_});
  for (const Op& op : graph_.ops()) {
    if (op.phase != Phase::kBackward || op.kind->name() != "times") continue;
    EXPECT_EQ(op.path, "blocks.0.times.backward.times");
    EXPECT_EQ(graph_.value(op.outputs[0]).path, "w.grad");
    EXPECT_EQ(graph_.value(op.outputs[0]).role, Role::kGradient);
  }
  EXPECT_EQ(graph_.phase(), Phase::kForward);
}

TEST_F(AutogradTest, RecordsWhoseGradientsThereAre) {
  const Tensor y = Times(x_, w_);
  const Tensor loss = Loss(Plus(y, Times(y, w_)));
  const std::vector<Tensor> gradients = Gradients(loss, {w_});
  EXPECT_EQ(graph_.value(gradients[0].id()).gradient_of, w_.id());
  int links = 0;
  for (const Op& op : graph_.ops()) {
    if (op.gradient_of == kNone) continue;
    ++links;
    EXPECT_EQ(op.phase, Phase::kBackward);
    const Op& forward = graph_.op(op.gradient_of);
    EXPECT_EQ(forward.phase, Phase::kForward);
    EXPECT_TRUE(absl::StartsWith(op.path, absl::StrCat(forward.path, ".backward."))) << op.path;
  }
  EXPECT_GE(links, 3);
  const ValueId y_gradient = graph_.FindValue(absl::StrCat(graph_.value(y.id()).path, ".grad"));
  ASSERT_NE(y_gradient, kNone);
  EXPECT_EQ(graph_.value(y_gradient).gradient_of, y.id());
}

TEST_F(AutogradTest, ComputesOnlyWhatIsAskedFor) {
  const Tensor unused = Times(w_, w_);
  Gradients(Loss(Plus(Times(x_, x_), w_)), {w_});
  for (const Op& op : graph_.ops()) {
    EXPECT_FALSE(op.phase == Phase::kBackward && op.kind->name() == "times") << op.path;
  }
  EXPECT_EQ(graph_.FindValue(absl::StrCat(graph_.value(unused.id()).path, ".grad")), kNone);
}

TEST_F(AutogradTest, ARuleFillsInTheGradientOfAnUnusedOutput) {
  Gradients(Loss(Halve(w_)[1]), {w_});
  EXPECT_THAT(Operators(), HasSubstr("%w.grad: f32[4] = join(%halve.backward.constant, "
                                     "%halve.high.grad)\n"));
}

TEST_F(AutogradTest, ATargetWithoutInfluenceGetsZeros) {
  const std::vector<Tensor> gradients = Gradients(Loss(x_), {w_, x_});
  EXPECT_THAT(Operators(),
              HasSubstr("%w.grad: f32[4] = constant() {dtype=f32, shape=[4], value=0.0}\n"));
  EXPECT_EQ(graph_.value(gradients[1].id()).path, "x.grad");
}

TEST_F(AutogradTest, TheLossMayBeATarget) {
  const Tensor loss = Loss(w_);
  const std::vector<Tensor> gradients = Gradients(loss, {loss, w_});
  EXPECT_EQ(graph_.value(gradients[0].id()).path, "score.grad");
  EXPECT_EQ(graph_.op(graph_.value(gradients[0].id()).producer).attributes.GetDouble("value"), 1);
}

TEST_F(AutogradTest, ErrorsNameTheOperator) {
  const Tensor loss = Loss(Plus(Round(w_), x_));
  const auto gradients = AppendGradients(graph_, loss, {w_}, kAutogradOperators);
  EXPECT_EQ(gradients.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(gradients.status().message(),
            "the gradient of 'round': operator 'round' has no gradient");
}

TEST_F(AutogradTest, ALossIsAFloatingScalar) {
  const auto gradients = AppendGradients(graph_, w_, {w_}, kAutogradOperators);
  EXPECT_EQ(gradients.status().message(), "a loss is a floating scalar, not f32[4]");
  EXPECT_FALSE(AppendGradients(graph_, Tensor(), {w_}, kAutogradOperators).ok());
}

TEST_F(AutogradTest, AFailedRecordingIsPassedOn) {
  const Tensor loss = Loss(w_);
  graph_.Fail(absl::InvalidArgumentError("model.heads: 5"));
  EXPECT_EQ(AppendGradients(graph_, loss, {w_}, kAutogradOperators).status().message(),
            "model.heads: 5");
}

}  // namespace
}  // namespace tessera
