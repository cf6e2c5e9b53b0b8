// Tests how the results of micro-batches are combined.
#include "core/plan/rewrite/micro_batches.h"

#include <vector>

#include "core/ops/ops.h"
#include "core/plan/testing/micro_batches.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TEST(MicroBatchesTest, AccumulatesGradientsOverMicroBatches) {
  const Graph graph = TrainingGraph(4);
  EXPECT_EQ(Body(graph),
            R"(%matmul: f32[4, 1] = matmul(%x, %w) {transpose_a=false, transpose_b=true}
%reshape: f32[4] = reshape(%matmul) {shape=[4]}
%valid_mask: f32[4] = valid_mask(%labels) {dtype=f32, ignore_index=-100}
%square: f32[4] = square(%reshape)
%multiply: f32[4] = multiply(%square, %valid_mask)
%reduce_sum: f32[] = reduce_sum(%multiply) {axes=[0], keep_dims=false}
%reduce_sum_1: f32[] = reduce_sum(%valid_mask) {axes=[0], keep_dims=false}
%divide: f32[] = divide(%reduce_sum, %reduce_sum_1)
%divide.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%reduce_sum.grad: f32[] = divide(%divide.grad, %reduce_sum_1)
%multiply.grad: f32[4] = expand(%reduce_sum.grad) {shape=[4]}
%square.grad: f32[4] = multiply(%multiply.grad, %valid_mask)
%square.backward.fill: f32[] = fill() {dtype=f32, shape=[], value=2.0}
%square.backward.multiply: f32[4] = multiply(%square.grad, %square.backward.fill)
%reshape.grad: f32[4] = multiply(%square.backward.multiply, %reshape)
%matmul.grad: f32[4, 1] = reshape(%reshape.grad) {shape=[4, 1]}
%w.grad: f32[1, 3] = matmul(%matmul.grad, %x) {transpose_a=true, transpose_b=false}
%subtract: f32[1, 3] = subtract(%w, %w.grad)
leave %w = %subtract
output loss = %divide
)");
  const Graph split = SplitGraph(graph, 2);
  EXPECT_EQ(split.ToString(), R"(graph train
input %x: f32[4, 3] batch_dim=0
input %labels: i32[4] batch_dim=0
parameter %w: f32[1, 3] {constant=1.0}
%labels@0: i32[2], %labels@1: i32[2] = split(%labels) {axis=0, sizes=[2, 2]}
%valid_mask@0: f32[2] = valid_mask(%labels@0) {dtype=f32, ignore_index=-100}
%valid_mask@1: f32[2] = valid_mask(%labels@1) {dtype=f32, ignore_index=-100}
%reduce_sum_1@0: f32[] = reduce_sum(%valid_mask@0) {axes=[0], keep_dims=false}
%reduce_sum_1@1: f32[] = reduce_sum(%valid_mask@1) {axes=[0], keep_dims=false}
%reduce_sum_1: f32[] = add(%reduce_sum_1@0, %reduce_sum_1@1)
%divide.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%reduce_sum.grad: f32[] = divide(%divide.grad, %reduce_sum_1)
%square.backward.fill: f32[] = fill() {dtype=f32, shape=[], value=2.0}
%x@0: f32[2, 3], %x@1: f32[2, 3] = split(%x) {axis=0, sizes=[2, 2]}
%matmul@0: f32[2, 1] = matmul(%x@0, %w) {transpose_a=false, transpose_b=true}
%reshape@0: f32[2] = reshape(%matmul@0) {shape=[2]}
%square@0: f32[2] = square(%reshape@0)
%multiply@0: f32[2] = multiply(%square@0, %valid_mask@0)
%reduce_sum@0: f32[] = reduce_sum(%multiply@0) {axes=[0], keep_dims=false}
%divide@0: f32[] = divide(%reduce_sum@0, %reduce_sum_1)
%multiply.grad@0: f32[2] = expand(%reduce_sum.grad) {shape=[2]}
%square.grad@0: f32[2] = multiply(%multiply.grad@0, %valid_mask@0)
%square.backward.multiply@0: f32[2] = multiply(%square.grad@0, %square.backward.fill)
%reshape.grad@0: f32[2] = multiply(%square.backward.multiply@0, %reshape@0)
%matmul.grad@0: f32[2, 1] = reshape(%reshape.grad@0) {shape=[2, 1]}
%w.grad@0: f32[1, 3] = matmul(%matmul.grad@0, %x@0) {transpose_a=true, transpose_b=false}
%matmul@1: f32[2, 1] = matmul(%x@1, %w) {transpose_a=false, transpose_b=true}
%reshape@1: f32[2] = reshape(%matmul@1) {shape=[2]}
%square@1: f32[2] = square(%reshape@1)
%multiply@1: f32[2] = multiply(%square@1, %valid_mask@1)
%reduce_sum@1: f32[] = reduce_sum(%multiply@1) {axes=[0], keep_dims=false}
%divide@1: f32[] = divide(%reduce_sum@1, %reduce_sum_1)
%divide: f32[] = add(%divide@0, %divide@1)
%multiply.grad@1: f32[2] = expand(%reduce_sum.grad) {shape=[2]}
%square.grad@1: f32[2] = multiply(%multiply.grad@1, %valid_mask@1)
%square.backward.multiply@1: f32[2] = multiply(%square.grad@1, %square.backward.fill)
%reshape.grad@1: f32[2] = multiply(%square.backward.multiply@1, %reshape@1)
%matmul.grad@1: f32[2, 1] = reshape(%reshape.grad@1) {shape=[2, 1]}
%w.grad@1: f32[1, 3] = matmul(%matmul.grad@1, %x@1) {transpose_a=true, transpose_b=false}
%w.grad: f32[1, 3] = add(%w.grad@0, %w.grad@1)
%subtract: f32[1, 3] = subtract(%w, %w.grad)
leave %w = %subtract
output loss = %divide
)");
}

TEST(MicroBatchesTest, AddsUpInTheOrderOfMicroBatches) {
  const std::string text = SplitGraph(TrainingGraph(6), 3).ToString();
  EXPECT_THAT(text, HasSubstr("%w.grad@0..1: f32[1, 3] = add(%w.grad@0, %w.grad@1)\n"));
  EXPECT_THAT(text, HasSubstr("%w.grad: f32[1, 3] = add(%w.grad@0..1, %w.grad@2)\n"));
}

TEST(MicroBatchesTest, OneMicroBatchLeavesTheGraphAsItIs) {
  const Graph graph = TrainingGraph(4);
  EXPECT_EQ(SplitGraph(graph, 1).ToString(), graph.ToString());
}

TEST(MicroBatchesTest, KeepsPhasesRolesAndBlocks) {
  Graph graph("train");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  Tensor y;
  {
    Scope block(&graph, "blocks.0", Scope::kBlock);
    const Tensor w = graph.Parameter("w", {2, 3}, Initializer::Constant(1));
    y = Linear(x, w);
  }
  const Tensor loss = ReduceSum(y, {0, 1});
  auto gradients =
      RecordGradients(graph, loss, {graph.tensor(graph.FindState("blocks.0.w")->input)});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  graph.SetOutput("gradient", gradients->front());
  const Graph split = SplitGraph(graph, 2);
  EXPECT_EQ(split.blocks(), graph.blocks());
  for (absl::string_view path : {"blocks.0.w.grad@0", "blocks.0.w.grad@1", "blocks.0.w.grad"}) {
    const Value& value = split.value(split.FindValue(path));
    EXPECT_EQ(value.role, Role::kGradient) << path;
    EXPECT_EQ(split.op(value.producer).phase, Phase::kBackward) << path;
  }
  const Value& product = split.value(split.FindValue("blocks.0.matmul@1"));
  EXPECT_EQ(product.role, Role::kActivation);
  EXPECT_EQ(split.op(product.producer).phase, Phase::kForward);
}

TEST(MicroBatchesTest, TakesTheMaximumOverMicroBatches) {
  Graph graph("maximum");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  graph.SetOutput("y", ReduceMax(x, {0}));
  EXPECT_EQ(Body(SplitGraph(graph, 2)),
            R"(%x@0: f32[2, 3], %x@1: f32[2, 3] = split(%x) {axis=0, sizes=[2, 2]}
%reduce_max@0: f32[3] = reduce_max(%x@0) {axes=[0], keep_dims=false}
%reduce_max@1: f32[3] = reduce_max(%x@1) {axes=[0], keep_dims=false}
%reduce_max: f32[3] = maximum(%reduce_max@0, %reduce_max@1)
output y = %reduce_max
)");
}

// The log-sum-exp of all elements, as a tensor-parallel softmax would compute it.
class LogSumExpOp : public Operator {
 public:
  absl::string_view name() const override { return "log_sum_exp"; }
  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes&) const override {
    return std::vector<TensorType>{{inputs[0].dtype, {}}};
  }
  std::vector<Signature> Signatures(const OpTypes&) const override {
    return {{{AxisLayout::Split(0)}, {AxisLayout::Partial(AxisLayout::Reduction::kLogSumExp)}}};
  }
};

TEST(MicroBatchesTest, AddsUpLogSumExps) {
  static const LogSumExpOp kind;
  Graph graph("lse");
  const Tensor x = graph.Input("x", F32({4}), 0);
  graph.SetOutput("lse", graph.Record1(kind, {x}));
  EXPECT_EQ(Body(SplitGraph(graph, 2)),
            R"(%x@0: f32[2], %x@1: f32[2] = split(%x) {axis=0, sizes=[2, 2]}
%log_sum_exp@0: f32[] = log_sum_exp(%x@0)
%log_sum_exp@1: f32[] = log_sum_exp(%x@1)
%log_sum_exp.max: f32[] = maximum(%log_sum_exp@0, %log_sum_exp@1)
%log_sum_exp.a_log: f32[] = subtract(%log_sum_exp@0, %log_sum_exp.max)
%log_sum_exp.a: f32[] = exp(%log_sum_exp.a_log)
%log_sum_exp.b_log: f32[] = subtract(%log_sum_exp@1, %log_sum_exp.max)
%log_sum_exp.b: f32[] = exp(%log_sum_exp.b_log)
%log_sum_exp.powers: f32[] = add(%log_sum_exp.a, %log_sum_exp.b)
%log_sum_exp.log: f32[] = log(%log_sum_exp.powers)
%log_sum_exp: f32[] = add(%log_sum_exp.max, %log_sum_exp.log)
output lse = %log_sum_exp
)");
}

}  // namespace
}  // namespace tessera
