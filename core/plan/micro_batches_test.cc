#include "core/plan/micro_batches.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/ops/ops.h"
#include "core/plan/micro_batch_layouts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TensorType F32(Shape shape) { return {DType::kF32, std::move(shape)}; }

Graph Cut(const Graph& graph, int64_t micro_batches) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  auto cut = SplitIntoMicroBatches(graph, micro_batches);
  EXPECT_TRUE(cut.ok()) << cut.status();
  return cut.ok() ? *std::move(cut) : Graph("none");
}

std::string Error(const Graph& graph, int64_t micro_batches) {
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  const auto cut = SplitIntoMicroBatches(graph, micro_batches);
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument);
  const absl::string_view message = cut.status().message();
  return {message.data(), message.size()};
}

// The lines of operators, states left and outputs.
std::string Body(const Graph& graph) {
  std::string body;
  for (absl::string_view line : absl::StrSplit(graph.ToString(), '\n')) {
    if (absl::StartsWith(line, "%") || absl::StartsWith(line, "leave") ||
        absl::StartsWith(line, "output")) {
      absl::StrAppend(&body, line, "\n");
    }
  }
  return body;
}

// The mean over the rows that count of (x w^T)^2, its gradient, and an update of w.
Graph TrainingGraph(int64_t rows) {
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

TEST(MicroBatchesTest, AccumulatesGradientsOverTurns) {
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
  const Graph cut = Cut(graph, 2);
  EXPECT_EQ(cut.ToString(), R"(graph train
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
  const std::string text = Cut(TrainingGraph(6), 3).ToString();
  EXPECT_THAT(text, HasSubstr("%w.grad@0..1: f32[1, 3] = add(%w.grad@0, %w.grad@1)\n"));
  EXPECT_THAT(text, HasSubstr("%w.grad: f32[1, 3] = add(%w.grad@0..1, %w.grad@2)\n"));
}

TEST(MicroBatchesTest, OneTurnIsTheGraphAsItIs) {
  const Graph graph = TrainingGraph(4);
  EXPECT_EQ(Cut(graph, 1).ToString(), graph.ToString());
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
  const Graph cut = Cut(graph, 2);
  EXPECT_EQ(cut.blocks(), graph.blocks());
  for (absl::string_view path : {"blocks.0.w.grad@0", "blocks.0.w.grad@1", "blocks.0.w.grad"}) {
    const Value& value = cut.value(cut.FindValue(path));
    EXPECT_EQ(value.role, Role::kGradient) << path;
    EXPECT_EQ(cut.op(value.producer).phase, Phase::kBackward) << path;
  }
  const Value& product = cut.value(cut.FindValue("blocks.0.matmul@1"));
  EXPECT_EQ(product.role, Role::kActivation);
  EXPECT_EQ(cut.op(product.producer).phase, Phase::kForward);
}

// Merging the batch with another dimension splits in units, which the product over all rows takes.
TEST(MicroBatchesTest, ReshapesMultiplyUnits) {
  Graph graph("units");
  const Tensor x = graph.Input("x", F32({4, 5, 3}), 0);
  const Tensor rows = Reshape(x, {20, 3});
  graph.SetOutput("product", MatMul(rows, rows, /*transpose_a=*/true));
  const auto layouts = LayOutMicroBatches(graph, 2);
  ASSERT_TRUE(layouts.ok()) << layouts.status();
  EXPECT_EQ(layouts->values[graph.FindValue("reshape")].ToString(), "S(0, 5)");
  EXPECT_EQ(layouts->values[graph.FindValue("matmul")].ToString(), "P");
  EXPECT_EQ(Body(Cut(graph, 2)),
            R"(%x@0: f32[2, 5, 3], %x@1: f32[2, 5, 3] = split(%x) {axis=0, sizes=[2, 2]}
%reshape@0: f32[10, 3] = reshape(%x@0) {shape=[10, 3]}
%matmul@0: f32[3, 3] = matmul(%reshape@0, %reshape@0) {transpose_a=true, transpose_b=false}
%reshape@1: f32[10, 3] = reshape(%x@1) {shape=[10, 3]}
%matmul@1: f32[3, 3] = matmul(%reshape@1, %reshape@1) {transpose_a=true, transpose_b=false}
%matmul: f32[3, 3] = add(%matmul@0, %matmul@1)
output product = %matmul
)");
}

TEST(MicroBatchesTest, CutsAlongTheBatchWhereverItIs) {
  Graph graph("second");
  const Tensor x = graph.Input("x", F32({3, 4}), 1);
  graph.SetOutput("y", Square(x));
  EXPECT_EQ(Body(Cut(graph, 2)),
            R"(%x@0: f32[3, 2], %x@1: f32[3, 2] = split(%x) {axis=1, sizes=[2, 2]}
%square@0: f32[3, 2] = square(%x@0)
%square@1: f32[3, 2] = square(%x@1)
%square: f32[3, 4] = concat(%square@0, %square@1) {axis=1}
output y = %square
)");
}

TEST(MicroBatchesTest, CutsWhatIsWholeWhereTurnsNeedAPart) {
  Graph graph("bias");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  const Tensor bias = graph.Parameter("bias", {4, 3}, Initializer::Constant(0));
  graph.SetOutput("y", ReduceSum(Multiply(Add(x, bias), bias), {0, 1}));
  EXPECT_EQ(
      Body(Cut(graph, 4)),
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
TEST(MicroBatchesTest, MakesWholeOnlyWhatIsReadWhole) {
  Graph graph("bias");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  const Tensor bias = graph.Parameter("bias", {4, 3}, Initializer::Constant(0));
  const Tensor whole = Square(bias);
  const Tensor part = Exp(Reshape(whole, {12}));
  const Tensor rows = Reshape(x, {12});
  graph.SetOutput("y", ReduceSum(Multiply(rows, part), {0}));
  graph.SetOutput("whole", whole);
  EXPECT_EQ(Body(Cut(graph, 2)), R"(%square: f32[4, 3] = square(%bias)
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
output whole = %square
)");
}

TEST(MicroBatchesTest, TurnsDrawTheirPartOfTheWholeMask) {
  Graph graph("dropout");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  graph.SetOutput("y", ReduceSum(Dropout(x, 0.5), {0}));
  EXPECT_EQ(Body(Cut(graph, 2)),
            R"(%x@0: f32[2, 3], %x@1: f32[2, 3] = split(%x) {axis=0, sizes=[2, 2]}
%dropout@0: f32[2, 3] = dropout(%x@0, %seed, %step) {probability=0.5, random_path="dropout", start=[0, 0], whole=[4, 3]}
%reduce_sum@0: f32[3] = reduce_sum(%dropout@0) {axes=[0], keep_dims=false}
%dropout@1: f32[2, 3] = dropout(%x@1, %seed, %step) {probability=0.5, random_path="dropout", start=[2, 0], whole=[4, 3]}
%reduce_sum@1: f32[3] = reduce_sum(%dropout@1) {axes=[0], keep_dims=false}
%reduce_sum: f32[3] = add(%reduce_sum@0, %reduce_sum@1)
output y = %reduce_sum
)");
}

TEST(MicroBatchesTest, TakesTheMaximumOverTurns) {
  Graph graph("maximum");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  graph.SetOutput("y", ReduceMax(x, {0}));
  EXPECT_EQ(Body(Cut(graph, 2)),
            R"(%x@0: f32[2, 3], %x@1: f32[2, 3] = split(%x) {axis=0, sizes=[2, 2]}
%reduce_max@0: f32[3] = reduce_max(%x@0) {axes=[0], keep_dims=false}
%reduce_max@1: f32[3] = reduce_max(%x@1) {axes=[0], keep_dims=false}
%reduce_max: f32[3] = maximum(%reduce_max@0, %reduce_max@1)
output y = %reduce_max
)");
}

// A value of the full batch that micro-batches read is computed before the first one, and once.
TEST(MicroBatchesTest, ComputesFirstWhatEveryTurnNeeds) {
  Graph graph("normalize");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  const Tensor w = graph.Parameter("w", {3}, Initializer::Constant(1));
  const Tensor largest = AddConstant(ReduceMax(Square(x), {0}), 1);
  graph.SetOutput("y", ReduceSum(Multiply(Divide(x, largest), w), {0, 1}));
  EXPECT_EQ(Body(Cut(graph, 2)),
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

// Log-sum-exp of all elements, as a tensor-parallel softmax would have it.
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
  EXPECT_EQ(Body(Cut(graph, 2)), R"(%x@0: f32[2], %x@1: f32[2] = split(%x) {axis=0, sizes=[2, 2]}
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

// An operator whose signature promises what its shape rule does not hold.
class WrongOp : public LogSumExpOp {
 public:
  absl::string_view name() const override { return "wrong"; }
  std::vector<Signature> Signatures(const OpTypes&) const override {
    return {{{AxisLayout::Split(0)}, {AxisLayout::Split(0)}}};
  }
  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes&) const override {
    return std::vector<TensorType>{{inputs[0].dtype, {4}}};
  }
};

TEST(MicroBatchesTest, HoldsSignaturesAgainstTheShapeRule) {
  static const WrongOp kind;
  Graph graph("wrong");
  graph.SetOutput("y", graph.Record1(kind, {graph.Input("x", F32({4}), 0)}));
  const auto cut = SplitIntoMicroBatches(graph, 2);
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("'wrong@0' (wrong)"));
}

TEST(MicroBatchesErrorsTest, SayWhatStandsInTheWay) {
  Graph graph("normalize");
  const Tensor x = graph.Input("x", F32({4, 3}), 0);
  const Tensor w = graph.Parameter("w", {2, 3}, Initializer::Constant(1));
  const Tensor y = Linear(x, w);
  graph.SetOutput("y", ReduceSum(Divide(y, ReduceMax(y, {0})), {0, 1}));
  EXPECT_EQ(
      Error(graph, 2),
      R"(micro_batches: 'divide' needs 'reduce_max' of the full batch in every micro-batch, but 'matmul' makes it from 'w'; only values that follow from the step's inputs alone can be computed before the first micro-batch)");
}

TEST(MicroBatchesErrorsTest, TurnsDivideTheBatch) {
  EXPECT_EQ(Error(TrainingGraph(10), 4),
            "micro_batches: 4 does not divide the batch of 10 rows of input 'x'");
}

TEST(MicroBatchesErrorsTest, ThereIsABatch) {
  Graph graph("generate");
  graph.SetOutput("y", Square(graph.Input("x", F32({4}))));
  EXPECT_EQ(Error(graph, 2), "micro_batches: graph 'generate' has no input with a batch to split");
}

TEST(MicroBatchesErrorsTest, ThereIsATurn) {
  EXPECT_EQ(Error(TrainingGraph(4), 0), "micro_batches: 0; it must be at least 1");
}

}  // namespace
}  // namespace tessera
