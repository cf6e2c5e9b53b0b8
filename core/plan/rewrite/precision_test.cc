#include "core/plan/rewrite/precision.h"

#include <string>

#include "core/ops/ops.h"
#include "core/plan/rewrite/micro_batches.h"
#include "core/plan/rewrite/recompute.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Stage StageOf(const std::string& text) {
  Stage stage;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &stage)) << text;
  return stage;
}

std::string Rewritten(const Graph& graph, const std::string& precision) {
  const auto read = ReadPrecision(StageOf("precision { " + precision + " }"));
  EXPECT_TRUE(read.ok()) << read.status();
  if (!read.ok()) return "";
  const auto rewritten = RewritePrecision(graph, *read);
  EXPECT_TRUE(rewritten.ok()) << rewritten.status();
  return rewritten.ok() ? rewritten->ToString() : "";
}

std::string ErrorOf(const std::string& precision) {
  const auto read = ReadPrecision(StageOf("precision { " + precision + " }"));
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  const absl::string_view message = read.status().message();
  return {message.data(), message.size()};
}

// A tied embedding around one block with a norm of `inner`, and a step of SGD.
Tensor Doubled(Tensor x) { return Scale(x, 2); }

Graph TrainedGraph(Tensor (*inner)(Tensor x) = Doubled) {
  Graph graph("train");
  const Tensor ids = graph.Input("ids", {DType::kI32, {4}}, 0);
  const Tensor targets = graph.Input("targets", {DType::kI32, {4}}, 0);
  const Tensor wte = graph.Parameter("wte", {5, 3}, Initializer::Constant(1));
  const Tensor gamma = graph.Parameter("gamma", {3}, Initializer::Constant(1));
  Tensor x = Embedding(wte, ids);
  {
    Scope block(&graph, "blocks.0", Scope::kBlock);
    x = LayerNorm(inner(x), gamma, graph.Bias("beta", {3}), 1e-5);
  }
  const Tensor loss = LinearCrossEntropy(x, wte, targets).mean;
  const auto gradients = RecordGradients(graph, loss, {wte, gamma});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.set_phase(Phase::kUpdate);
  const Tensor lr = graph.Input("lr", {DType::kF32, {}});
  const Tensor norm =
      Sqrt(Add(SumSquares((*gradients)[0]), ReduceSum(Square((*gradients)[1]), {0})));
  const Tensor finite = AllFinite({norm});
  graph.SetState("wte", SgdUpdate(wte, (*gradients)[0], {}, lr, norm, finite, {}).parameter);
  graph.SetState("gamma", SgdUpdate(gamma, (*gradients)[1], {}, lr, norm, finite, {}).parameter);
  graph.SetOutput("loss", loss);
  graph.SetOutput("x", x);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return graph;
}

TEST(PrecisionTest, LowersWhatFollowsFromParametersAndKeepsMastersAndStatistics) {
  EXPECT_EQ(Rewritten(TrainedGraph(), "parameters: BF16"), R"(graph train
input %ids: i32[4] batch_dim=0
input %targets: i32[4] batch_dim=0
input %lr: f32[]
parameter %wte: f32[5, 3] {constant=1.0}
parameter %gamma: f32[3] {constant=1.0}
parameter %blocks.0.beta: f32[3] {constant=0.0}
%wte.bf16: bf16[5, 3] = cast(%wte) {dtype=bf16}
%embedding: bf16[4, 3] = embedding(%wte.bf16, %ids)
%blocks.0.fill: bf16[] = fill() {dtype=bf16, shape=[], value=2.0}
%blocks.0.multiply: bf16[4, 3] = multiply(%embedding, %blocks.0.fill)
%gamma.bf16: bf16[3] = cast(%gamma) {dtype=bf16}
%blocks.0.beta.bf16: bf16[3] = cast(%blocks.0.beta) {dtype=bf16}
%blocks.0.layer_norm: bf16[4, 3], %blocks.0.layer_norm.mean: f32[4], %blocks.0.layer_norm.rstd: f32[4] = layer_norm(%blocks.0.multiply, %gamma.bf16, %blocks.0.beta.bf16) {eps=1e-05}
%linear_log_sum_exp.lse: f32[4], %linear_log_sum_exp.target_logit: f32[4] = linear_log_sum_exp(%blocks.0.layer_norm, %wte.bf16, %targets)
%valid_mask: f32[4] = valid_mask(%targets) {dtype=f32, ignore_index=-100}
%subtract: f32[4] = subtract(%linear_log_sum_exp.lse, %linear_log_sum_exp.target_logit)
%multiply: f32[4] = multiply(%subtract, %valid_mask)
%reduce_sum: f32[] = reduce_sum(%multiply) {axes=[0], keep_dims=false}
%reduce_sum_1: f32[] = reduce_sum(%valid_mask) {axes=[0], keep_dims=false}
%fill: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%maximum: f32[] = maximum(%reduce_sum_1, %fill)
%divide: f32[] = divide(%reduce_sum, %maximum)
%divide.grad: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%reduce_sum.grad: f32[] = divide(%divide.grad, %maximum)
%multiply.grad: f32[4] = expand(%reduce_sum.grad) {shape=[4]}
%subtract.grad: f32[4] = multiply(%multiply.grad, %valid_mask)
%linear_log_sum_exp.target_logit.grad: f32[4] = negate(%subtract.grad)
%blocks.0.layer_norm.grad: bf16[4, 3], %linear_log_sum_exp.backward.linear_log_sum_exp_grad.dw: bf16[5, 3] = linear_log_sum_exp_grad(%subtract.grad, %linear_log_sum_exp.target_logit.grad, %blocks.0.layer_norm, %wte.bf16, %targets, %linear_log_sum_exp.lse)
%blocks.0.multiply.grad: bf16[4, 3], %gamma.grad.bf16: bf16[3], %blocks.0.layer_norm.backward.layer_norm_grad.dbias: bf16[3] = layer_norm_grad(%blocks.0.layer_norm.grad, %blocks.0.multiply, %gamma.bf16, %blocks.0.layer_norm.mean, %blocks.0.layer_norm.rstd)
%gamma.grad: f32[3] = cast(%gamma.grad.bf16) {dtype=f32}
%embedding.grad: bf16[4, 3] = multiply(%blocks.0.multiply.grad, %blocks.0.fill)
%embedding.backward.embedding_grad: bf16[5, 3] = embedding_grad(%embedding.grad, %ids) {rows=5}
%wte.grad.bf16: bf16[5, 3] = add(%linear_log_sum_exp.backward.linear_log_sum_exp_grad.dw, %embedding.backward.embedding_grad)
%wte.grad: f32[5, 3] = cast(%wte.grad.bf16) {dtype=f32}
%square: f32[3] = square(%gamma.grad)
%reduce_sum_2: f32[] = reduce_sum(%square) {axes=[0], keep_dims=false}
%sum_squares: f32[] = sum_squares(%wte.grad)
%add: f32[] = add(%sum_squares, %reduce_sum_2)
%sqrt: f32[] = sqrt(%add)
%all_finite: u8[] = all_finite(%sqrt)
%sgd_update: f32[5, 3] = sgd_update(%wte, %wte.grad, %lr, %sqrt, %all_finite) {momentum=0.0, weight_decay=0.0}
%sgd_update_1: f32[3] = sgd_update(%gamma, %gamma.grad, %lr, %sqrt, %all_finite) {momentum=0.0, weight_decay=0.0}
%blocks.0.layer_norm.f32: f32[4, 3] = cast(%blocks.0.layer_norm) {dtype=f32}
leave %wte = %sgd_update
leave %gamma = %sgd_update_1
output loss = %divide
output x = %blocks.0.layer_norm.f32
)");
}

// The update and the norm read the reduced gradient. An operator that accepts no 16-bit gradient
// reads it in f32.
TEST(PrecisionTest, ReducesGradientsInADTypeOfTheirOwn) {
  const std::string both = Rewritten(TrainedGraph(), "parameters: BF16 reduction: BF16");
  EXPECT_THAT(both, HasSubstr("%gamma.grad: bf16[3], "));
  EXPECT_THAT(both,
              HasSubstr("%gamma.grad.f32: f32[3] = cast(%gamma.grad) {dtype=f32, terms=false}\n"
                        "%square: f32[3] = square(%gamma.grad.f32)\n"));
  EXPECT_THAT(both, HasSubstr("%sum_squares: f32[] = sum_squares(%wte.grad)\n"));
  EXPECT_THAT(both, HasSubstr("= sgd_update(%wte, %wte.grad, "));
  EXPECT_THAT(both, Not(HasSubstr("%wte.grad.bf16")));

  const std::string reduction = Rewritten(TrainedGraph(), "reduction: BF16");
  EXPECT_THAT(reduction,
              HasSubstr("%wte.grad: bf16[5, 3] = cast(%wte.grad.f32) {dtype=bf16, terms=true}\n"));
  EXPECT_THAT(reduction, HasSubstr("%embedding: f32[4, 3] = embedding(%wte, %ids)\n"));
}

// Named operators and their gradients compute in f32; the operators that read their results do not.
// Only the first rows of `w` are used, so its gradient is a sum and zeros behind it.
TEST(PrecisionTest, AssemblesGradientsInF32FromTheirParts) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {2, 3, 4}}, 0);
  const Tensor w = graph.Parameter("w", {5, 4}, Initializer::Constant(1));
  const Tensor loss = ReduceSum(Square(Multiply(x, Slice(w, 0, 0, 3))), {0, 1, 2});
  ASSERT_TRUE(RecordGradients(graph, loss, {w}).ok());
  const std::string in_f32 = Rewritten(graph, "parameters: BF16");
  EXPECT_THAT(in_f32, HasSubstr("f32[3, 4] = cast(%split.grad) {dtype=f32}"));
  EXPECT_THAT(in_f32, HasSubstr("%w.grad: f32[5, 4] = concat(%split.grad.f32, "));
  EXPECT_THAT(in_f32, HasSubstr("f32[2, 4] = fill() {dtype=f32, shape=[2, 4], value=0.0}"));
  EXPECT_THAT(Rewritten(graph, "parameters: BF16 reduction: BF16"),
              HasSubstr("%w.grad: bf16[5, 4] = concat(%split.grad, "));
}

TEST(PrecisionTest, KeepsTheOperatorsInF32ThatThePlanNames) {
  const std::string text =
      Rewritten(TrainedGraph(), "parameters: BF16 in_f32: 'blocks.*.layer_norm'");
  EXPECT_THAT(text, HasSubstr("%blocks.0.multiply.f32: f32[4, 3] = cast(%blocks.0.multiply)"));
  EXPECT_THAT(text, HasSubstr("%blocks.0.layer_norm: f32[4, 3]"));
  EXPECT_THAT(text, HasSubstr("layer_norm(%blocks.0.multiply.f32, %gamma, %blocks.0.beta)"));
  EXPECT_THAT(text, HasSubstr("linear_log_sum_exp(%blocks.0.layer_norm.bf16, %wte.bf16, "));
  EXPECT_THAT(text, HasSubstr("%blocks.0.multiply.grad: f32[4, 3], %gamma.grad: f32[3], "));
  EXPECT_THAT(text, HasSubstr("%embedding.grad: bf16[4, 3] = multiply("));
}

TEST(PrecisionTest, LeavesOutputsInTheDTypeThatThePlanNames) {
  const std::string text = Rewritten(TrainedGraph(), "parameters: BF16 outputs: BF16");
  EXPECT_THAT(text, HasSubstr("output x = %blocks.0.layer_norm\n"));
  EXPECT_THAT(text, HasSubstr("output loss = %divide\n"));
  EXPECT_THAT(text, HasSubstr("%divide: f32[]"));
}

// Caches have no f32 master values.
TEST(PrecisionTest, KeepsCachesInFewerBits) {
  Graph graph("generate");
  const Tensor x = graph.Parameter("x", {1, 1, 2, 4}, Initializer::Constant(1));
  const TensorType type = {DType::kF32, {1, 3, 2, 4}};
  const Tensor k = graph.DeclareState("k", type, Role::kCache, Initializer::Constant(0));
  const Tensor v = graph.DeclareState("v", type, Role::kCache, Initializer::Constant(0));
  const DecodedAttention decoded =
      AttentionDecode(x, x, x, k, v, graph.Input("position", {DType::kI64, {}}));
  graph.SetState("k", decoded.k_cache);
  graph.SetState("v", decoded.v_cache);
  graph.SetOutput("y", decoded.output);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const std::string text = Rewritten(graph, "parameters: BF16");
  EXPECT_THAT(text, HasSubstr("cache %k: bf16[1, 3, 2, 4]"));
  EXPECT_THAT(text, HasSubstr("parameter %x: f32[1, 1, 2, 4]"));
  EXPECT_THAT(text, HasSubstr("attention_decode(%x.bf16, %x.bf16, %x.bf16, %k, %v, %position)"));
  EXPECT_THAT(text, HasSubstr("output y = %attention_decode.f32\n"));
}

// A gradient is linked to the parameter, not to the cast that the operator read. So layouts and
// buckets find it.
// Regression: pictures kept the whole network in f32, because their cast from bytes gives f32.
TEST(PrecisionTest, PicturesAreNormalizedInF32AndReadInFewerBits) {
  Graph graph("evaluate");
  const Tensor bytes = graph.Input("bytes", {DType::kU8, {4, 3}}, 0);
  const Tensor w = graph.Parameter("w", {2, 3}, Initializer::Constant(1));
  const Tensor pixels = AddConstant(Cast(bytes, DType::kF32), -1);
  graph.SetOutput("y", Relu(Linear(pixels, w)));
  const std::string text = Rewritten(graph, "parameters: BF16");
  EXPECT_THAT(text, HasSubstr("%add: f32[4, 3] = add(%cast, %fill)\n"));
  EXPECT_THAT(text, HasSubstr("%add.bf16: bf16[4, 3] = cast(%add) {dtype=bf16}\n"));
  EXPECT_THAT(text, HasSubstr("%matmul: bf16[4, 2] = matmul(%add.bf16, %w.bf16)"));
  EXPECT_THAT(text, HasSubstr("%relu: bf16[4, 2] = relu(%matmul)\n"));
}

TEST(PrecisionTest, RunningStatisticsAreReadInF32) {
  Graph graph("train");
  const Tensor x = graph.Input("x", {DType::kF32, {4, 3}}, 0);
  const Tensor w = graph.Parameter("w", {2, 3}, Initializer::Constant(1));
  const Tensor weight = graph.Parameter("weight", {2}, Initializer::Constant(1));
  const Tensor bias = graph.Bias("bias", {2});
  const RunningMoments running = DeclareRunningMoments(graph, 2);
  const Tensor product = Linear(x, w);
  graph.SetOutput("y", BatchNormUpdating(product, weight, bias, running));
  graph.SetOutput("z", BatchNormWith(product, weight, bias, running.mean, running.variance));
  const std::string text = Rewritten(graph, "parameters: BF16");
  EXPECT_THAT(text, HasSubstr("%batch_norm_sum: f32[1, 2], %batch_norm_sum.count: f32[1, 1] = "
                              "batch_norm_sum(%matmul) "));
  EXPECT_THAT(text, HasSubstr("statistic %running_mean: f32[2] "));
  EXPECT_THAT(text, HasSubstr(": bf16[4, 2] = batch_norm(%matmul, "));
  EXPECT_THAT(text, Not(HasSubstr("%running_mean.bf16")));
  EXPECT_THAT(text, Not(HasSubstr("%weight.bf16")));
  EXPECT_THAT(text, Not(HasSubstr("%bias.bf16")));
  EXPECT_THAT(text, Not(HasSubstr("bf16[2] = add(")));
  EXPECT_THAT(text, Not(HasSubstr("bf16[2] = rsqrt(")));
}

TEST(PrecisionTest, LinksGradientsToMasters) {
  Precision precision;
  precision.parameters = DType::kBF16;
  for (DType reduction : {DType::kF32, DType::kBF16}) {
    precision.reduction = reduction;
    const auto graph = RewritePrecision(TrainedGraph(), precision);
    ASSERT_TRUE(graph.ok()) << graph.status();
    int complete = 0;
    for (const Value& value : graph->values()) {
      if (value.complete_gradient_of == kNone) continue;
      ++complete;
      const std::string& master = graph->value(value.complete_gradient_of).path;
      EXPECT_EQ(value.path, master + ".grad");
      EXPECT_EQ(value.type.dtype, reduction);
      EXPECT_EQ(graph->value(value.gradient_of).path,
                reduction == DType::kF32 ? master : master + ".bf16");
    }
    EXPECT_EQ(complete, 2);
    const Op& op = graph->op(graph->value(graph->FindValue("embedding.grad")).producer);
    EXPECT_EQ(graph->op(op.gradient_of).path, "blocks.0.multiply");
  }
}

// Each micro-batch adds to a sum in the dtype of the reduction, and reads casts that are computed
// once.
TEST(PrecisionTest, ComesBeforeRecomputationAndMicroBatches) {
  Precision precision;
  precision.parameters = DType::kBF16;
  auto graph = RewritePrecision(TrainedGraph(Relu), precision);
  ASSERT_TRUE(graph.ok()) << graph.status();
  graph = Recompute(*graph, {"blocks.0"});
  ASSERT_TRUE(graph.ok()) << graph.status();
  graph = SplitIntoMicroBatches(*graph, 2);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::string text = graph->ToString();
  EXPECT_THAT(text, HasSubstr("%wte.grad@1: f32[5, 3] = cast(%wte.grad.bf16@1) {dtype=f32}\n"
                              "%wte.grad: f32[5, 3] = add(%wte.grad@0, %wte.grad@1)\n"));
  EXPECT_THAT(text, HasSubstr("%blocks.0.relu.recomputed@0: bf16[2, 3]"));
  EXPECT_THAT(text, HasSubstr("%gamma.bf16: bf16[3] = cast(%gamma)"));
  EXPECT_THAT(text, Not(HasSubstr("%gamma.bf16@")));
}

TEST(PrecisionErrorsTest, NameTheFieldAndWhatItMayBe) {
  EXPECT_EQ(ErrorOf("parameters: F64"),
            "the Plan's precision: parameters: F64 is none of F32, BF16 and F16");
  EXPECT_EQ(ErrorOf("reduction: 77"),
            "the Plan's precision: reduction: 77 is none of F32, BF16 and F16");
  EXPECT_EQ(ErrorOf("parameters: BF16 outputs: F16"),
            "the Plan's precision: outputs: F16 is neither F32 nor the dtype of parameters, BF16");
  EXPECT_THAT(ErrorOf("in_f32: 'a||b'"), HasSubstr("the Plan's precision: in_f32: "));
}

TEST(PrecisionErrorsTest, AGraphThatTrainsInF16HasALossScale) {
  Precision precision;
  precision.parameters = DType::kF16;
  EXPECT_THAT(std::string(RewritePrecision(TrainedGraph(), precision).status().message()),
              HasSubstr("f16 needs a loss scale, and graph 'train' has no state "
                        "'optimizer.loss_scale'"));
}

}  // namespace
}  // namespace tessera
