#include "models/mlp/mlp.h"

#include <string>

#include "core/graph/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

MlpConfig Small() {
  MlpConfig config;
  config.set_window(3);
  config.set_channels(2);
  config.add_hidden(7);
  config.add_hidden(5);
  config.set_vocabulary(11);
  return config;
}

Graph LossGraph(const MlpConfig& config) {
  Graph graph("loss");
  auto model = CreateMlp(config);
  EXPECT_TRUE(model.ok()) << model.status();
  graph.SetOutput("loss", (*model)->RecordLoss(graph, 4, config.window(), true).loss.mean);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return graph;
}

TEST(MlpTest, RecordsTheLoss) {
  const Graph graph = LossGraph(Small());
  EXPECT_THAT(graph.blocks(), ElementsAre("layers.0", "layers.1"));
  EXPECT_EQ(graph.ToString(), R"(graph loss
input %tokens: i32[4, 3] batch_dim=0
input %targets: i32[4, 3] batch_dim=0
parameter %embed.weight: f32[11, 2] {mean=0.0, stddev=1.0}
parameter %layers.0.weight: f32[7, 6] {mean=0.0, stddev=0.5773502691896257}
parameter %layers.0.bias: f32[7] {constant=0.0}
parameter %layers.1.weight: f32[5, 7] {mean=0.0, stddev=0.5345224838248488}
parameter %layers.1.bias: f32[5] {constant=0.0}
parameter %head.weight: f32[11, 5] {mean=0.0, stddev=0.02}
%embed.embedding: f32[4, 3, 2] = embedding(%embed.weight, %tokens)
%embed.reshape: f32[4, 6] = reshape(%embed.embedding) {shape=[4, 6]}
%layers.0.matmul: f32[4, 7] = matmul(%embed.reshape, %layers.0.weight) {transpose_a=false, transpose_b=true}
%layers.0.add: f32[4, 7] = add(%layers.0.matmul, %layers.0.bias)
%layers.0.relu: f32[4, 7] = relu(%layers.0.add)
%layers.1.matmul: f32[4, 5] = matmul(%layers.0.relu, %layers.1.weight) {transpose_a=false, transpose_b=true}
%layers.1.add: f32[4, 5] = add(%layers.1.matmul, %layers.1.bias)
%layers.1.relu: f32[4, 5] = relu(%layers.1.add)
%loss.split: i32[4, 2], %loss.split.1: i32[4, 1] = split(%targets) {axis=1, sizes=[2, 1]}
%loss.reshape: i32[4] = reshape(%loss.split.1) {shape=[4]}
%loss.linear_log_sum_exp.lse: f32[4], %loss.linear_log_sum_exp.target_logit: f32[4] = linear_log_sum_exp(%layers.1.relu, %head.weight, %loss.reshape)
%loss.valid_mask: f32[4] = valid_mask(%loss.reshape) {dtype=f32, ignore_index=-100}
%loss.subtract: f32[4] = subtract(%loss.linear_log_sum_exp.lse, %loss.linear_log_sum_exp.target_logit)
%loss.multiply: f32[4] = multiply(%loss.subtract, %loss.valid_mask)
%loss.reduce_sum: f32[] = reduce_sum(%loss.multiply) {axes=[0], keep_dims=false}
%loss.reduce_sum_1: f32[] = reduce_sum(%loss.valid_mask) {axes=[0], keep_dims=false}
%loss.fill: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%loss.maximum: f32[] = maximum(%loss.reduce_sum_1, %loss.fill)
%loss.divide: f32[] = divide(%loss.reduce_sum, %loss.maximum)
output loss = %loss.divide
)");
}

TEST(MlpTest, ChoosesTheActivation) {
  MlpConfig config = Small();
  config.set_activation("relu");
  EXPECT_THAT(LossGraph(config).ToString(), HasSubstr("= relu("));
  config.set_activation("gelu_tanh");
  EXPECT_THAT(LossGraph(config).ToString(), HasSubstr("{approximate=\"tanh\"}"));
  config.set_activation("gelu_erf");
  EXPECT_THAT(LossGraph(config).ToString(), HasSubstr("{approximate=\"none\"}"));
}

TEST(MlpTest, NeedsNoHiddenLayer) {
  MlpConfig config = Small();
  config.clear_hidden();
  const Graph graph = LossGraph(config);
  EXPECT_THAT(graph.blocks(), ElementsAre());
  EXPECT_EQ(graph.FindState("head.weight")->type, (TensorType{DType::kF32, {11, 6}}));
}

TEST(MlpTest, PredictsTheTokenBehindTheWindow) {
  Graph graph("logits");
  auto model = CreateMlp(Small());
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor logits = (*model)->RecordLogits(graph, 4, 3);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(logits.type(), (TensorType{DType::kF32, {4, 11}}));
}

TEST(MlpTest, GeneratesOverAWindow) {
  Graph graph("generate");
  auto model = CreateMlp(Small());
  ASSERT_TRUE(model.ok()) << model.status();
  (*model)->RecordNextToken(graph, 100);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(graph.ToString(), R"(graph generate
input %token: i32[1]
input %position: i64[]
cache %window: i32[1, 3] {constant=0.0}
parameter %embed.weight: f32[11, 2] {mean=0.0, stddev=1.0}
parameter %layers.0.weight: f32[7, 6] {mean=0.0, stddev=0.5773502691896257}
parameter %layers.0.bias: f32[7] {constant=0.0}
parameter %layers.1.weight: f32[5, 7] {mean=0.0, stddev=0.5345224838248488}
parameter %layers.1.bias: f32[5] {constant=0.0}
parameter %head.weight: f32[11, 5] {mean=0.0, stddev=0.02}
%shift.reshape: i32[1, 1] = reshape(%token) {shape=[1, 1]}
%shift.split: i32[1, 1], %shift.split.1: i32[1, 2] = split(%window) {axis=1, sizes=[1, 2]}
%shift.concat: i32[1, 3] = concat(%shift.split.1, %shift.reshape) {axis=1}
%embed.embedding: f32[1, 3, 2] = embedding(%embed.weight, %shift.concat)
%embed.reshape: f32[1, 6] = reshape(%embed.embedding) {shape=[1, 6]}
%layers.0.matmul: f32[1, 7] = matmul(%embed.reshape, %layers.0.weight) {transpose_a=false, transpose_b=true}
%layers.0.add: f32[1, 7] = add(%layers.0.matmul, %layers.0.bias)
%layers.0.relu: f32[1, 7] = relu(%layers.0.add)
%layers.1.matmul: f32[1, 5] = matmul(%layers.0.relu, %layers.1.weight) {transpose_a=false, transpose_b=true}
%layers.1.add: f32[1, 5] = add(%layers.1.matmul, %layers.1.bias)
%layers.1.relu: f32[1, 5] = relu(%layers.1.add)
%head.matmul: f32[1, 11] = matmul(%layers.1.relu, %head.weight) {transpose_a=false, transpose_b=true}
%head.reshape: f32[11] = reshape(%head.matmul) {shape=[11]}
leave %window = %shift.concat
)");
}

TEST(MlpTest, AWindowOfOneTokenKeepsTheTokenOnly) {
  MlpConfig config = Small();
  config.set_window(1);
  Graph graph("generate");
  auto model = CreateMlp(config);
  ASSERT_TRUE(model.ok()) << model.status();
  (*model)->RecordNextToken(graph, 100);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_THAT(graph.ToString(), HasSubstr("leave %window = %shift.reshape\n"));
}

TEST(MlpErrorsTest, NameTheField) {
  MlpConfig config = Small();
  config.set_window(0);
  EXPECT_EQ(CreateMlp(config).status().message(), "model.window: 0 is not from 1 to 65536");
  config = Small();
  config.add_hidden(-1);
  EXPECT_THAT(CreateMlp(config).status().message(), HasSubstr("model.hidden: -1"));
  config = Small();
  config.set_activation("tanh");
  EXPECT_THAT(CreateMlp(config).status().message(), HasSubstr("model.activation: \"tanh\""));
}

TEST(MlpErrorsTest, TheSequenceIsTheWindow) {
  auto model = CreateMlp(Small());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->max_sequence(), 3);
  Graph loss("loss"), logits("logits");
  EXPECT_FALSE((*model)->RecordLoss(loss, 4, 2, true).loss.mean.valid());
  EXPECT_EQ(loss.status().message(),
            "sequence: 2 tokens, but model.window is 3; the two must be equal");
  EXPECT_FALSE((*model)->RecordLogits(logits, 0, 3).valid());
  EXPECT_EQ(logits.status().message(), "batch: 0 is not positive");
}

}  // namespace
}  // namespace tessera
