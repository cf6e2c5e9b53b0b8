// Which values are split between micro-batches, and where.
#include "core/ops/ops.h"
#include "core/plan/rewrite/micro_batch_layouts.h"
#include "core/plan/testing/micro_batches.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

// Merging the batch with another dimension splits in units, which the product over all rows takes.
TEST(MicroBatchSplitsTest, ReshapesMultiplyUnits) {
  Graph graph("units");
  const Tensor x = graph.Input("x", F32({4, 5, 3}), 0);
  const Tensor rows = Reshape(x, {20, 3});
  graph.SetOutput("product", MatMul(rows, rows, /*transpose_a=*/true));
  const auto layouts = LayOutMicroBatches(graph, 2);
  ASSERT_TRUE(layouts.ok()) << layouts.status();
  EXPECT_EQ(layouts->values[graph.FindValue("reshape")].ToString(), "S(0, 5)");
  EXPECT_EQ(layouts->values[graph.FindValue("matmul")].ToString(), "P");
  EXPECT_EQ(Body(SplitGraph(graph, 2)),
            R"(%x@0: f32[2, 5, 3], %x@1: f32[2, 5, 3] = split(%x) {axis=0, sizes=[2, 2]}
%reshape@0: f32[10, 3] = reshape(%x@0) {shape=[10, 3]}
%matmul@0: f32[3, 3] = matmul(%reshape@0, %reshape@0) {transpose_a=true, transpose_b=false}
%reshape@1: f32[10, 3] = reshape(%x@1) {shape=[10, 3]}
%matmul@1: f32[3, 3] = matmul(%reshape@1, %reshape@1) {transpose_a=true, transpose_b=false}
%matmul: f32[3, 3] = add(%matmul@0, %matmul@1)
output product = %matmul
)");
}

TEST(MicroBatchSplitsTest, SplitsTheBatchDimensionWhereverItIs) {
  Graph graph("second");
  const Tensor x = graph.Input("x", F32({3, 4}), 1);
  graph.SetOutput("y", Square(x));
  EXPECT_EQ(Body(SplitGraph(graph, 2)),
            R"(%x@0: f32[3, 2], %x@1: f32[3, 2] = split(%x) {axis=1, sizes=[2, 2]}
%square@0: f32[3, 2] = square(%x@0)
%square@1: f32[3, 2] = square(%x@1)
%square: f32[3, 4] = concat(%square@0, %square@1) {axis=1}
output y = %square
)");
}

TEST(MicroBatchSplitsTest, SplitsAGlobalValueOfWhichMicroBatchesReadParts) {
  Graph graph("bias");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  const Tensor bias = graph.Parameter("bias", {4, 3}, Initializer::Constant(0));
  graph.SetOutput("y", ReduceSum(Multiply(Add(x, bias), bias), {0, 1}));
  EXPECT_EQ(
      Body(SplitGraph(graph, 4)),
      R"(%x@0: f32[1, 3], %x@1: f32[1, 3], %x@2: f32[1, 3], %x@3: f32[1, 3] = split(%x) {axis=0, sizes=[1, 1, 1, 1]}
%bias@0: f32[1, 3], %bias@1: f32[1, 3], %bias@2: f32[1, 3], %bias@3: f32[1, 3] = split(%bias) {axis=0, sizes=[1, 1, 1, 1]}
%add@0: f32[1, 3] = add(%x@0, %bias@0)
%multiply@0: f32[1, 3] = multiply(%add@0, %bias@0)
%reduce_sum@0: f32[] = reduce_sum(%multiply@0) {axes=[0, 1], keep_dims=false}
%add@1: f32[1, 3] = add(%x@1, %bias@1)
%multiply@1: f32[1, 3] = multiply(%add@1, %bias@1)
%reduce_sum@1: f32[] = reduce_sum(%multiply@1) {axes=[0, 1], keep_dims=false}
%reduce_sum@0..1: f32[] = add(%reduce_sum@0, %reduce_sum@1)
%add@2: f32[1, 3] = add(%x@2, %bias@2)
%multiply@2: f32[1, 3] = multiply(%add@2, %bias@2)
%reduce_sum@2: f32[] = reduce_sum(%multiply@2) {axes=[0, 1], keep_dims=false}
%reduce_sum@0..2: f32[] = add(%reduce_sum@0..1, %reduce_sum@2)
%add@3: f32[1, 3] = add(%x@3, %bias@3)
%multiply@3: f32[1, 3] = multiply(%add@3, %bias@3)
%reduce_sum@3: f32[] = reduce_sum(%multiply@3) {axes=[0, 1], keep_dims=false}
%reduce_sum: f32[] = add(%reduce_sum@0..2, %reduce_sum@3)
output y = %reduce_sum
)");
}

// A value that only micro-batches read, each a part of it, is made in each; `square` is an output
// too.
TEST(MicroBatchSplitsTest, ComputesInFullOnlyWhatIsReadInFull) {
  Graph graph("bias");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  const Tensor bias = graph.Parameter("bias", {4, 3}, Initializer::Constant(0));
  const Tensor full = Square(bias);
  const Tensor part = Exp(Reshape(full, {12}));
  const Tensor rows = Reshape(x, {12});
  graph.SetOutput("y", ReduceSum(Multiply(rows, part), {0}));
  graph.SetOutput("full", full);
  EXPECT_EQ(Body(SplitGraph(graph, 2)), R"(%square: f32[4, 3] = square(%bias)
%square@0: f32[2, 3], %square@1: f32[2, 3] = split(%square) {axis=0, sizes=[2, 2]}
%reshape@0: f32[6] = reshape(%square@0) {shape=[6]}
%exp@0: f32[6] = exp(%reshape@0)
%x@0: f32[2, 3], %x@1: f32[2, 3] = split(%x) {axis=0, sizes=[2, 2]}
%reshape_1@0: f32[6] = reshape(%x@0) {shape=[6]}
%multiply@0: f32[6] = multiply(%reshape_1@0, %exp@0)
%reduce_sum@0: f32[] = reduce_sum(%multiply@0) {axes=[0], keep_dims=false}
%reshape@1: f32[6] = reshape(%square@1) {shape=[6]}
%exp@1: f32[6] = exp(%reshape@1)
%reshape_1@1: f32[6] = reshape(%x@1) {shape=[6]}
%multiply@1: f32[6] = multiply(%reshape_1@1, %exp@1)
%reduce_sum@1: f32[] = reduce_sum(%multiply@1) {axes=[0], keep_dims=false}
%reduce_sum: f32[] = add(%reduce_sum@0, %reduce_sum@1)
output y = %reduce_sum
output full = %square
)");
}

TEST(MicroBatchSplitsTest, MicroBatchesDrawTheirPartOfTheGlobalMask) {
  Graph graph("dropout");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  graph.SetOutput("y", ReduceSum(Dropout(x, 0.5), {0}));
  EXPECT_EQ(Body(SplitGraph(graph, 2)),
            R"(%x@0: f32[2, 3], %x@1: f32[2, 3] = split(%x) {axis=0, sizes=[2, 2]}
%dropout@0: f32[2, 3] = dropout(%x@0, %seed, %step) {global_shape=[4, 3], probability=0.5, random_path="dropout", start=[0, 0]}
%reduce_sum@0: f32[3] = reduce_sum(%dropout@0) {axes=[0], keep_dims=false}
%dropout@1: f32[2, 3] = dropout(%x@1, %seed, %step) {global_shape=[4, 3], probability=0.5, random_path="dropout", start=[2, 0]}
%reduce_sum@1: f32[3] = reduce_sum(%dropout@1) {axes=[0], keep_dims=false}
%reduce_sum: f32[3] = add(%reduce_sum@0, %reduce_sum@1)
output y = %reduce_sum
)");
}

// A value of the full batch that micro-batches read is computed before the first one, and once.
TEST(MicroBatchSplitsTest, ComputesFirstWhatEveryMicroBatchNeeds) {
  Graph graph("normalize");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  const Tensor w = graph.Parameter("w", {3}, Initializer::Constant(1));
  const Tensor largest = AddConstant(ReduceMax(Square(x), {0}), 1);
  graph.SetOutput("y", ReduceSum(Multiply(Divide(x, largest), w), {0, 1}));
  EXPECT_EQ(Body(SplitGraph(graph, 2)),
            R"(%x@0: f32[2, 3], %x@1: f32[2, 3] = split(%x) {axis=0, sizes=[2, 2]}
%square@0: f32[2, 3] = square(%x@0)
%square@1: f32[2, 3] = square(%x@1)
%reduce_max@0: f32[3] = reduce_max(%square@0) {axes=[0], keep_dims=false}
%reduce_max@1: f32[3] = reduce_max(%square@1) {axes=[0], keep_dims=false}
%reduce_max: f32[3] = maximum(%reduce_max@0, %reduce_max@1)
%fill: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%add: f32[3] = add(%reduce_max, %fill)
%divide@0: f32[2, 3] = divide(%x@0, %add)
%multiply@0: f32[2, 3] = multiply(%divide@0, %w)
%reduce_sum@0: f32[] = reduce_sum(%multiply@0) {axes=[0, 1], keep_dims=false}
%divide@1: f32[2, 3] = divide(%x@1, %add)
%multiply@1: f32[2, 3] = multiply(%divide@1, %w)
%reduce_sum@1: f32[] = reduce_sum(%multiply@1) {axes=[0, 1], keep_dims=false}
%reduce_sum: f32[] = add(%reduce_sum@0, %reduce_sum@1)
output y = %reduce_sum
)");
}

}  // namespace
}  // namespace tessera
