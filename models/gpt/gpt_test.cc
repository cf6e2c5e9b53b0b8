#include "models/gpt/gpt.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/graph/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsNull;
using ::testing::Not;
using ::testing::NotNull;

GptConfig Small() {
  GptConfig config;
  config.set_layers(2);
  config.set_heads(2);
  config.set_channels(6);
  config.set_vocabulary(11);
  config.set_context(5);
  return config;
}

// Returns the Graph of the loss of 2 sequences of 4 tokens.
Graph LossGraph(const GptConfig& config, bool training = false) {
  Graph graph("loss");
  auto model = CreateGpt(config);
  EXPECT_TRUE(model.ok()) << model.status();
  graph.SetOutput("loss", (*model)->RecordLoss(graph, 2, 4, training).loss.mean);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return graph;
}

// Returns the lines that contain `word`.
std::string LinesWith(const Graph& graph, absl::string_view word) {
  std::string lines;
  for (absl::string_view line : absl::StrSplit(graph.ToString(), '\n')) {
    if (absl::StrContains(line, word)) absl::StrAppend(&lines, line, "\n");
  }
  return lines;
}

absl::Status CreateError(const GptConfig& config) { return CreateGpt(config).status(); }

TEST(GptTest, RecordsABlock) {
  const Graph graph = LossGraph(Small());
  EXPECT_THAT(graph.blocks(), ElementsAre("blocks.0", "blocks.1"));
  EXPECT_EQ(LinesWith(graph, "%blocks.1."), R"(parameter %blocks.1.ln1.weight: f32[6] {constant=1.0}
parameter %blocks.1.ln1.bias: f32[6] {constant=0.0}
parameter %blocks.1.attn.qkv.weight: f32[2, 3, 3, 6] {mean=0.0, stddev=0.02}
parameter %blocks.1.attn.qkv.bias: f32[2, 3, 3] {constant=0.0}
parameter %blocks.1.attn.proj.weight: f32[6, 6] {mean=0.0, stddev=0.01}
parameter %blocks.1.attn.proj.bias: f32[6] {constant=0.0}
parameter %blocks.1.ln2.weight: f32[6] {constant=1.0}
parameter %blocks.1.ln2.bias: f32[6] {constant=0.0}
parameter %blocks.1.mlp.fc.weight: f32[24, 6] {mean=0.0, stddev=0.02}
parameter %blocks.1.mlp.fc.bias: f32[24] {constant=0.0}
parameter %blocks.1.mlp.proj.weight: f32[6, 24] {mean=0.0, stddev=0.01}
parameter %blocks.1.mlp.proj.bias: f32[6] {constant=0.0}
%blocks.1.ln1.layer_norm: f32[2, 4, 6], %blocks.1.ln1.layer_norm.mean: f32[2, 4], %blocks.1.ln1.layer_norm.rstd: f32[2, 4] = layer_norm(%blocks.0.mlp.add, %blocks.1.ln1.weight, %blocks.1.ln1.bias) {eps=1e-05}
%blocks.1.attn.qkv.reshape: f32[18, 6] = reshape(%blocks.1.attn.qkv.weight) {shape=[18, 6]}
%blocks.1.attn.qkv.reshape_1: f32[18] = reshape(%blocks.1.attn.qkv.bias) {shape=[18]}
%blocks.1.attn.qkv.matmul: f32[2, 4, 18] = matmul(%blocks.1.ln1.layer_norm, %blocks.1.attn.qkv.reshape) {transpose_a=false, transpose_b=true}
%blocks.1.attn.qkv.add: f32[2, 4, 18] = add(%blocks.1.attn.qkv.matmul, %blocks.1.attn.qkv.reshape_1)
%blocks.1.attn.qkv.reshape_2: f32[2, 4, 2, 3, 3] = reshape(%blocks.1.attn.qkv.add) {shape=[2, 4, 2, 3, 3]}
%blocks.1.attn.split: f32[2, 4, 2, 1, 3], %blocks.1.attn.split.1: f32[2, 4, 2, 1, 3], %blocks.1.attn.split.2: f32[2, 4, 2, 1, 3] = split(%blocks.1.attn.qkv.reshape_2) {axis=3, sizes=[1, 1, 1]}
%blocks.1.attn.reshape: f32[2, 4, 2, 3] = reshape(%blocks.1.attn.split) {shape=[2, 4, 2, 3]}
%blocks.1.attn.reshape_1: f32[2, 4, 2, 3] = reshape(%blocks.1.attn.split.1) {shape=[2, 4, 2, 3]}
%blocks.1.attn.reshape_2: f32[2, 4, 2, 3] = reshape(%blocks.1.attn.split.2) {shape=[2, 4, 2, 3]}
%blocks.1.attn.attention: f32[2, 4, 2, 3], %blocks.1.attn.attention.lse: f32[2, 2, 4] = attention(%blocks.1.attn.reshape, %blocks.1.attn.reshape_1, %blocks.1.attn.reshape_2) {causal=true, scale=0.5773502691896258}
%blocks.1.attn.reshape_3: f32[2, 4, 6] = reshape(%blocks.1.attn.attention) {shape=[2, 4, 6]}
%blocks.1.attn.proj.matmul: f32[2, 4, 6] = matmul(%blocks.1.attn.reshape_3, %blocks.1.attn.proj.weight) {transpose_a=false, transpose_b=true}
%blocks.1.attn.proj.add: f32[2, 4, 6] = add(%blocks.1.attn.proj.matmul, %blocks.1.attn.proj.bias)
%blocks.1.attn.add: f32[2, 4, 6] = add(%blocks.0.mlp.add, %blocks.1.attn.proj.add)
%blocks.1.ln2.layer_norm: f32[2, 4, 6], %blocks.1.ln2.layer_norm.mean: f32[2, 4], %blocks.1.ln2.layer_norm.rstd: f32[2, 4] = layer_norm(%blocks.1.attn.add, %blocks.1.ln2.weight, %blocks.1.ln2.bias) {eps=1e-05}
%blocks.1.mlp.fc.matmul: f32[2, 4, 24] = matmul(%blocks.1.ln2.layer_norm, %blocks.1.mlp.fc.weight) {transpose_a=false, transpose_b=true}
%blocks.1.mlp.fc.add: f32[2, 4, 24] = add(%blocks.1.mlp.fc.matmul, %blocks.1.mlp.fc.bias)
%blocks.1.mlp.gelu: f32[2, 4, 24] = gelu(%blocks.1.mlp.fc.add) {approximate="tanh"}
%blocks.1.mlp.proj.matmul: f32[2, 4, 6] = matmul(%blocks.1.mlp.gelu, %blocks.1.mlp.proj.weight) {transpose_a=false, transpose_b=true}
%blocks.1.mlp.proj.add: f32[2, 4, 6] = add(%blocks.1.mlp.proj.matmul, %blocks.1.mlp.proj.bias)
%blocks.1.mlp.add: f32[2, 4, 6] = add(%blocks.1.attn.add, %blocks.1.mlp.proj.add)
%ln_f.layer_norm: f32[2, 4, 6], %ln_f.layer_norm.mean: f32[2, 4], %ln_f.layer_norm.rstd: f32[2, 4] = layer_norm(%blocks.1.mlp.add, %ln_f.weight, %ln_f.bias) {eps=1e-05}
)");
}

TEST(GptTest, RecordsTheEndsOfTheModel) {
  Graph graph = LossGraph(Small());
  EXPECT_EQ(
      LinesWith(graph, "embed."),
      R"(%embed.split: f32[4, 6], %embed.split.1: f32[1, 6] = split(%wpe.weight) {axis=0, sizes=[4, 1]}
%embed.embedding: f32[2, 4, 6] = embedding(%wte.weight, %tokens)
%embed.add: f32[2, 4, 6] = add(%embed.embedding, %embed.split)
%blocks.0.ln1.layer_norm: f32[2, 4, 6], %blocks.0.ln1.layer_norm.mean: f32[2, 4], %blocks.0.ln1.layer_norm.rstd: f32[2, 4] = layer_norm(%embed.add, %blocks.0.ln1.weight, %blocks.0.ln1.bias) {eps=1e-05}
%blocks.0.attn.add: f32[2, 4, 6] = add(%embed.add, %blocks.0.attn.proj.add)
)");
  EXPECT_EQ(LinesWith(graph, "loss"), R"(graph loss
%loss.linear_log_sum_exp.lse: f32[2, 4], %loss.linear_log_sum_exp.target_logit: f32[2, 4] = linear_log_sum_exp(%ln_f.layer_norm, %wte.weight, %targets)
%loss.valid_mask: f32[2, 4] = valid_mask(%targets) {dtype=f32, ignore_index=-100}
%loss.subtract: f32[2, 4] = subtract(%loss.linear_log_sum_exp.lse, %loss.linear_log_sum_exp.target_logit)
%loss.multiply: f32[2, 4] = multiply(%loss.subtract, %loss.valid_mask)
%loss.reduce_sum: f32[] = reduce_sum(%loss.multiply) {axes=[0, 1], keep_dims=false}
%loss.reduce_sum_1: f32[] = reduce_sum(%loss.valid_mask) {axes=[0, 1], keep_dims=false}
%loss.fill: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%loss.maximum: f32[] = maximum(%loss.reduce_sum_1, %loss.fill)
%loss.divide: f32[] = divide(%loss.reduce_sum, %loss.maximum)
output loss = %loss.divide
)");
}

TEST(GptTest, BlocksAreEqual) {
  const Graph graph = LossGraph(Small());
  EXPECT_EQ(graph.BlockFingerprint("blocks.0"), graph.BlockFingerprint("blocks.1"));
}

TEST(GptTest, ReadsAllOfThePositionsWithoutASlice) {
  GptConfig config = Small();
  config.set_context(4);
  EXPECT_THAT(LossGraph(config).ToString(), Not(HasSubstr("%embed.split")));
}

TEST(GptTest, TheHeadIsTheEmbeddingUnlessUntied) {
  GptConfig config = Small();
  const Graph tied = LossGraph(config);
  EXPECT_THAT(tied.FindState("head.weight"), IsNull());
  EXPECT_THAT(tied.ToString(), HasSubstr("(%ln_f.layer_norm, %wte.weight, %targets)"));
  config.set_untied_head(true);
  const Graph untied = LossGraph(config);
  ASSERT_THAT(untied.FindState("head.weight"), NotNull());
  EXPECT_EQ(untied.FindState("head.weight")->type, (TensorType{DType::kF32, {11, 6}}));
  EXPECT_THAT(untied.ToString(), HasSubstr("(%ln_f.layer_norm, %head.weight, %targets)"));
}

TEST(GptTest, ResidualProjectionsStartSmaller) {
  const Graph graph = LossGraph(Small());
  EXPECT_EQ(graph.FindState("blocks.0.attn.qkv.weight")->initializer.stddev, 0.02);
  EXPECT_EQ(graph.FindState("blocks.0.mlp.fc.weight")->initializer.stddev, 0.02);
  EXPECT_EQ(graph.FindState("blocks.0.attn.proj.weight")->initializer.stddev, 0.01);
  EXPECT_EQ(graph.FindState("blocks.1.mlp.proj.weight")->initializer.stddev, 0.01);
}

TEST(GptTest, SaysWhichGelu) {
  GptConfig config = Small();
  EXPECT_THAT(LinesWith(LossGraph(config), "= gelu"), HasSubstr("approximate=\"tanh\""));
  config.set_gelu("erf");
  EXPECT_THAT(LinesWith(LossGraph(config), "= gelu"), HasSubstr("approximate=\"none\""));
}

TEST(GptTest, DropsOutOnlyInTraining) {
  GptConfig config = Small();
  EXPECT_EQ(LinesWith(LossGraph(config, /*training=*/true), "dropout"), "");
  config.set_dropout(0.25);
  EXPECT_EQ(LinesWith(LossGraph(config, /*training=*/false), "dropout"), "");
  config.set_layers(1);
  EXPECT_EQ(
      LinesWith(LossGraph(config, /*training=*/true), "= dropout"),
      R"(%embed.dropout: f32[2, 4, 6] = dropout(%embed.add, %seed, %step) {probability=0.25, random_path="embed.dropout"}
%blocks.0.attn.dropout: f32[2, 4, 6] = dropout(%blocks.0.attn.proj.add, %seed, %step) {probability=0.25, random_path="blocks.0.attn.dropout"}
%blocks.0.mlp.dropout: f32[2, 4, 6] = dropout(%blocks.0.mlp.proj.add, %seed, %step) {probability=0.25, random_path="blocks.0.mlp.dropout"}
)");
}

TEST(GptTest, LogitsArePredictedAtEveryPosition) {
  Graph graph("logits");
  auto model = CreateGpt(Small());
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor logits = (*model)->RecordLogits(graph, 2, 4);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(logits.type(), (TensorType{DType::kF32, {2, 4, 11}}));
  EXPECT_EQ(graph.FindValue("targets"), kNone);
}

TEST(GptTest, GeneratesOverCaches) {
  Graph graph("generate");
  auto model = CreateGpt(Small());
  ASSERT_TRUE(model.ok()) << model.status();
  const Tensor logits = (*model)->RecordNextToken(graph, 4);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(logits.type(), (TensorType{DType::kF32, {11}}));
  EXPECT_EQ(LinesWith(graph, "blocks.1.attn.k_cache"),
            R"(cache %blocks.1.attn.k_cache: f32[1, 4, 2, 3] {constant=0.0}
%blocks.1.attn.attention_decode: f32[1, 1, 2, 3], %blocks.1.attn.attention_decode.k_cache: f32[1, 4, 2, 3], %blocks.1.attn.attention_decode.v_cache: f32[1, 4, 2, 3] = attention_decode(%blocks.1.attn.reshape, %blocks.1.attn.reshape_1, %blocks.1.attn.reshape_2, %blocks.1.attn.k_cache, %blocks.1.attn.v_cache, %position) {scale=0.5773502691896258}
leave %blocks.1.attn.k_cache = %blocks.1.attn.attention_decode.k_cache
)");
  EXPECT_EQ(LinesWith(graph, "embed."),
            R"(%embed.embedding: f32[1, 6] = embedding(%wte.weight, %token)
%embed.cast: i32[] = cast(%position) {dtype=i32}
%embed.reshape: i32[1] = reshape(%embed.cast) {shape=[1]}
%embed.embedding_1: f32[1, 6] = embedding(%wpe.weight, %embed.reshape)
%embed.add: f32[1, 6] = add(%embed.embedding, %embed.embedding_1)
%embed.reshape_1: f32[1, 1, 6] = reshape(%embed.add) {shape=[1, 1, 6]}
%blocks.0.ln1.layer_norm: f32[1, 1, 6], %blocks.0.ln1.layer_norm.mean: f32[1, 1], %blocks.0.ln1.layer_norm.rstd: f32[1, 1] = layer_norm(%embed.reshape_1, %blocks.0.ln1.weight, %blocks.0.ln1.bias) {eps=1e-05}
%blocks.0.attn.add: f32[1, 1, 6] = add(%embed.reshape_1, %blocks.0.attn.proj.add)
)");
}

TEST(GptTest, AllGraphsHaveTheSameParameters) {
  GptConfig config = Small();
  config.set_untied_head(true);
  auto model = CreateGpt(config);
  ASSERT_TRUE(model.ok()) << model.status();
  const Graph loss = LossGraph(config);
  Graph logits("logits"), token("token");
  (*model)->RecordLogits(logits, 1, 3);
  (*model)->RecordNextToken(token, 5);
  EXPECT_EQ(LinesWith(logits, "parameter"), LinesWith(loss, "parameter"));
  EXPECT_EQ(LinesWith(token, "parameter"), LinesWith(loss, "parameter"));
}

TEST(GptErrorsTest, NameTheField) {
  GptConfig config = Small();
  config.set_heads(5);
  config.set_channels(128);
  EXPECT_EQ(CreateError(config).message(), "model.heads: 5 heads do not divide 128 channels");
  config = Small();
  config.clear_layers();
  EXPECT_THAT(CreateError(config).message(), HasSubstr("model.layers: 0"));
  config = Small();
  config.set_vocabulary(-3);
  EXPECT_THAT(CreateError(config).message(), HasSubstr("model.vocabulary: -3"));
  config = Small();
  config.set_channels(int64_t{1} << 40);
  EXPECT_THAT(CreateError(config).message(), HasSubstr("model.channels: 1099511627776"));
  config = Small();
  config.set_context(0);
  EXPECT_THAT(CreateError(config).message(), HasSubstr("model.context: 0"));
  config = Small();
  config.set_gelu("fast");
  EXPECT_THAT(CreateError(config).message(), HasSubstr("model.gelu: \"fast\""));
  config = Small();
  config.set_dropout(1);
  EXPECT_THAT(CreateError(config).message(), HasSubstr("model.dropout: 1"));
  config = Small();
  config.set_layer_norm_eps(-1);
  EXPECT_THAT(CreateError(config).message(), HasSubstr("model.layer_norm_eps: -1"));
  EXPECT_EQ(CreateError(config).code(), absl::StatusCode::kInvalidArgument);
}

TEST(GptErrorsTest, ASequenceFitsTheContext) {
  auto model = CreateGpt(Small());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->max_sequence(), 5);
  Graph loss("loss"), logits("logits"), token("token"), rows("rows");
  EXPECT_FALSE((*model)->RecordLoss(loss, 2, 6, true).loss.mean.valid());
  EXPECT_EQ(loss.status().message(), "sequence: 6 tokens, but model.context is 5");
  EXPECT_FALSE((*model)->RecordLogits(logits, 2, 0).valid());
  EXPECT_EQ(logits.status().message(), "sequence: 0 tokens, but model.context is 5");
  EXPECT_FALSE((*model)->RecordNextToken(token, 6).valid());
  EXPECT_EQ(token.status().message(), "sequence: 6 tokens, but model.context is 5");
  EXPECT_FALSE((*model)->RecordLoss(rows, 0, 5, true).loss.mean.valid());
  EXPECT_EQ(rows.status().message(), "batch: 0 is not positive");
}

}  // namespace
}  // namespace tessera
