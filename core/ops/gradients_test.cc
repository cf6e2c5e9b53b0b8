// Tests which operators the gradient rules record. tests/operators tests that their results are
// right, with numeric gradients of every operator.
#include <gtest/gtest.h>

#include <numeric>

#include "core/ops/ops.h"
#include "core/ops/testing/operators.h"

namespace tessera {
namespace {

// Records sum(f(parameters)) and its gradients, and returns the ops of the backward phase, without
// those of the sum's gradient.
class GradientsTest : public testing::Test {
 protected:
  Tensor Parameter(const char* name, const TensorType& type) {
    parameters_.push_back(graph_.DeclareState(name, type, Role::kParameter, {}));
    return parameters_.back();
  }

  std::string GradientOps(Tensor y) {
    std::vector<int64_t> axes(y.rank());
    std::iota(axes.begin(), axes.end(), 0);
    const auto gradients = RecordGradients(graph_, ReduceSum(y, axes), parameters_);
    if (!gradients.ok()) return MessageOf(gradients.status());
    for (size_t i = 0; i < parameters_.size(); ++i) {
      EXPECT_EQ((*gradients)[i].type(), parameters_[i].type());
    }
    const std::string text = BackwardOps(graph_);
    const size_t of_sum = text.find("expand(");
    return text.substr(text.find('\n', of_sum) + 1);
  }

  Graph graph_{"test"};
  std::vector<Tensor> parameters_;
};

TEST_F(GradientsTest, BroadcastInputsGetSums) {
  const Tensor a = Parameter("a", F32({2, 3, 4})), b = Parameter("b", F32({3, 1}));
  EXPECT_EQ(GradientOps(Subtract(a, b)),
            "reduce_sum(f32[2, 3, 4]) -> f32[3]\n"
            "reshape(f32[3]) -> f32[3, 1]\n"
            "negate(f32[3, 1]) -> f32[3, 1]\n");
}

TEST_F(GradientsTest, OnlyWhatIsNeededIsRecorded) {
  const Tensor x = graph_.Input("x", F32({2, 3})), w = Parameter("w", F32({3}));
  EXPECT_EQ(GradientOps(Multiply(x, w)),
            "multiply(f32[2, 3], f32[2, 3]) -> f32[2, 3]\n"
            "reduce_sum(f32[2, 3]) -> f32[3]\n");
}

TEST_F(GradientsTest, LinearNeedsNoTransposedCopies) {
  const Tensor x = Parameter("x", F32({2, 5, 3})), w = Parameter("w", F32({4, 3}));
  EXPECT_EQ(GradientOps(Linear(x, w)),
            "matmul(f32[2, 5, 4], f32[4, 3]) -> f32[2, 5, 3]\n"
            "matmul(f32[2, 5, 4], f32[2, 5, 3]) -> f32[4, 3]\n");
}

TEST_F(GradientsTest, AllFormsOfMatMulHaveGradientsOfTheRightShape) {
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      Graph graph("test");
      const Tensor a =
          graph.DeclareState("a", ta ? F32({7, 3, 2}) : F32({7, 2, 3}), Role::kParameter, {});
      const Tensor b =
          graph.DeclareState("b", tb ? F32({7, 5, 3}) : F32({7, 3, 5}), Role::kParameter, {});
      const auto gradients = RecordGradients(graph, SumSquares(MatMul(a, b, ta, tb)), {a, b});
      ASSERT_TRUE(gradients.ok()) << gradients.status();
      EXPECT_EQ((*gradients)[0].type(), a.type());
      EXPECT_EQ((*gradients)[1].type(), b.type());
    }
  }
}

TEST_F(GradientsTest, PartsWithoutGradientCountAsZeros) {
  const Tensor x = Parameter("x", F32({2, 6}));
  EXPECT_EQ(GradientOps(Slice(x, 1, 1, 2)),
            "fill() -> f32[2, 1]\n"
            "fill() -> f32[2, 3]\n"
            "concat(f32[2, 1], f32[2, 2], f32[2, 3]) -> f32[2, 6]\n");
}

TEST_F(GradientsTest, ViewsGoBack) {
  const Tensor x = Parameter("x", F32({2, 1, 6}));
  const Tensor y = Transpose(Reshape(Expand(x, {2, 3, 6}), {2, 3, 3, 2}), {3, 0, 2, 1});
  EXPECT_EQ(GradientOps(y),
            "transpose(f32[2, 2, 3, 3]) -> f32[2, 3, 3, 2]\n"
            "reshape(f32[2, 3, 3, 2]) -> f32[2, 3, 6]\n"
            "reduce_sum(f32[2, 3, 6]) -> f32[2, 6]\n"
            "reshape(f32[2, 6]) -> f32[2, 1, 6]\n");
}

TEST_F(GradientsTest, SumsExpand) {
  const Tensor x = Parameter("x", F32({2, 3, 4}));
  EXPECT_EQ(GradientOps(ReduceSum(ReduceSum(x, {-1}), {0}, /*keep_dims=*/true)),
            "expand(f32[1, 3]) -> f32[2, 3]\n"
            "reshape(f32[2, 3]) -> f32[2, 3, 1]\n"
            "expand(f32[2, 3, 1]) -> f32[2, 3, 4]\n");
}

TEST_F(GradientsTest, ConcatSplits) {
  const Tensor a = Parameter("a", F32({2, 3})), b = Parameter("b", F32({2, 1}));
  EXPECT_EQ(GradientOps(Concat({a, b}, -1)), "split(f32[2, 4]) -> f32[2, 3], f32[2, 1]\n");
}

TEST_F(GradientsTest, DropoutMasksItsGradientAlike) {
  const Tensor x = Parameter("x", F32({4}));
  EXPECT_EQ(GradientOps(Dropout(x, 0.5)), "dropout(f32[4], i64[], i64[]) -> f32[4]\n");
  EXPECT_EQ(graph_.ops().back().attributes.GetString("random_path"), "dropout");
  EXPECT_NE(graph_.ops().back().path, "dropout");
}

TEST_F(GradientsTest, CastGoesBackToItsInputsDType) {
  const Tensor x = Parameter("x", F32({4}));
  EXPECT_EQ(GradientOps(Cast(x, DType::kBF16)), "cast(bf16[4]) -> f32[4]\n");
}

TEST_F(GradientsTest, EqualElementsOfAMaximumShare) {
  const Tensor a = Parameter("a", F32({4})), b = Parameter("b", F32({}));
  const std::string ops = GradientOps(Maximum(a, b));
  EXPECT_EQ(ops,
            "subtract(f32[4], f32[]) -> f32[4]\n"
            "relu_grad(f32[4], f32[4]) -> f32[4]\n"
            "subtract(f32[], f32[4]) -> f32[4]\n"
            "relu_grad(f32[4], f32[4]) -> f32[4]\n"
            "subtract(f32[4], f32[4]) -> f32[4]\n"
            "subtract(f32[4], f32[4]) -> f32[4]\n"
            "fill() -> f32[]\n"
            "multiply(f32[4], f32[]) -> f32[4]\n"
            "add(f32[4], f32[4]) -> f32[4]\n"
            "add(f32[4], f32[4]) -> f32[4]\n"
            "reduce_sum(f32[4]) -> f32[]\n");
}

TEST_F(GradientsTest, FusedOperatorsHaveFusedGradients) {
  const Tensor q = Parameter("q", F32({2, 3, 2, 4}));
  EXPECT_EQ(GradientOps(Attention(q, q, q, true)),
            "attention_grad(f32[2, 3, 2, 4], f32[2, 3, 2, 4], f32[2, 3, 2, 4], f32[2, 3, 2, 4], "
            "f32[2, 3, 2, 4], f32[2, 2, 3]) -> f32[2, 3, 2, 4], f32[2, 3, 2, 4], f32[2, 3, 2, 4]\n"
            "add(f32[2, 3, 2, 4], f32[2, 3, 2, 4]) -> f32[2, 3, 2, 4]\n"
            "add(f32[2, 3, 2, 4], f32[2, 3, 2, 4]) -> f32[2, 3, 2, 4]\n");
}

TEST_F(GradientsTest, TargetLogitsAloneHaveAGradient) {
  const Tensor x = Parameter("x", F32({3, 2})), w = graph_.Input("w", F32({5, 2}));
  const Tensor targets = graph_.Input("targets", I32({3}));
  EXPECT_EQ(GradientOps(LinearLogSumExp(x, w, targets).target_logit),
            "fill() -> f32[3]\n"
            "linear_log_sum_exp_grad(f32[3], f32[3], f32[3, 2], f32[5, 2], i32[3], f32[3]) -> "
            "f32[3, 2], f32[5, 2]\n");
}

TEST_F(GradientsTest, KeptLogitsAreRead) {
  const Tensor x = Parameter("x", F32({3, 2})), w = graph_.Input("w", F32({5, 2}));
  const Tensor targets = graph_.Input("targets", I32({3}));
  const std::vector<Tensor> outputs =
      graph_.Record(*FindOperator("linear_log_sum_exp"), {x, w, targets}, {{"keep_logits", true}});
  EXPECT_EQ(GradientOps(outputs[0]),
            "fill() -> f32[3]\n"
            "linear_log_sum_exp_grad(f32[3], f32[3], f32[3, 2], f32[5, 2], i32[3], f32[3], f32[3, "
            "5]) -> f32[3, 2], f32[5, 2]\n");
  EXPECT_EQ(GradientOps(outputs[2]),
            "the gradient of 'linear_log_sum_exp': no gradient flows through the logits that are "
            "kept");
}

TEST_F(GradientsTest, CrossEntropyIsAMeanOverValidTargets) {
  const Tensor x = Parameter("x", F32({2, 3, 4})), w = Parameter("w", F32({9, 4}));
  const Tensor targets = graph_.Input("targets", I32({2, 3}), 0);
  const Tensor loss = LinearCrossEntropy(x, w, targets).mean;
  ASSERT_TRUE(RecordGradients(graph_, loss, {x, w}).ok());
  EXPECT_EQ(graph_.ToString(), R"(graph test
input %targets: i32[2, 3] batch_dim=0
parameter %x: f32[2, 3, 4] {constant=0.0}
parameter %w: f32[9, 4] {constant=0.0}
%linear_log_sum_exp.lse: f32[2, 3], %linear_log_sum_exp.target_logit: f32[2, 3] = linear_log_sum_exp(%x, %w, %targets)
%valid_mask: f32[2, 3] = valid_mask(%targets) {dtype=f32, ignore_index=-100}
%subtract: f32[2, 3] = subtract(%linear_log_sum_exp.lse, %linear_log_sum_exp.target_logit)
%multiply: f32[2, 3] = multiply(%subtract, %valid_mask)
%reduce_sum: f32[] = reduce_sum(%multiply) {axes=[0, 1], keep_dims=false}
%reduce_sum_1: f32[] = reduce_sum(%valid_mask) {axes=[0, 1], keep_dims=false}
%fill: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%maximum: f32[] = maximum(%reduce_sum_1, %fill)
%divide: f32[] = divide(%reduce_sum, %maximum)
%divide.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%reduce_sum.grad: f32[] = divide(%divide.grad, %maximum)
%multiply.grad: f32[2, 3] = expand(%reduce_sum.grad) {shape=[2, 3]}
%subtract.grad: f32[2, 3] = multiply(%multiply.grad, %valid_mask)
%linear_log_sum_exp.target_logit.grad: f32[2, 3] = negate(%subtract.grad)
%x.grad: f32[2, 3, 4], %w.grad: f32[9, 4] = linear_log_sum_exp_grad(%subtract.grad, %linear_log_sum_exp.target_logit.grad, %x, %w, %targets, %linear_log_sum_exp.lse)
)");
}

TEST_F(GradientsTest, NothingFlowsThroughStatisticsOfANorm) {
  const Tensor x = Parameter("x", F32({2, 3})), w = graph_.Input("w", F32({3}));
  const Tensor mean = graph_.Record(*FindOperator("layer_norm"), {x, w, w}, {{"eps", 1e-5}})[1];
  EXPECT_EQ(GradientOps(mean),
            "the gradient of 'layer_norm': no gradient flows through layer_norm's mean and rstd");
}

TEST_F(GradientsTest, InvalidHandlesPassOn) {
  const Tensor none;
  const Tensor x = Parameter("x", F32({2, 3}));
  EXPECT_FALSE(Add(none, none).valid());
  EXPECT_FALSE(Dropout(none, 0.5).valid());
  EXPECT_FALSE(Scale(none, 2).valid());
  EXPECT_FALSE(ReduceMean(none, {0}).valid());
  EXPECT_FALSE(Linear(none, x, x).valid());
  EXPECT_FALSE(LinearCrossEntropy(none, none, none).mean.valid());
  EXPECT_EQ(Split(none, 0, {1, 2}).size(), 2u);
  EXPECT_FALSE(Slice(none, 0, 1, 2).valid());
  EXPECT_FALSE(Concat({}, 0).valid());
  EXPECT_FALSE(Attention(none, none, none, true).valid());
  EXPECT_FALSE(graph_.status().ok());
}

}  // namespace
}  // namespace tessera
