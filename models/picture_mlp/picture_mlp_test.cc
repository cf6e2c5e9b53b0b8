#include "models/picture_mlp/picture_mlp.h"

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PictureMlpConfig Small() {
  PictureMlpConfig config;
  config.set_height(5);
  config.set_width(4);
  config.set_channels(3);
  config.add_hidden(9);
  config.add_hidden(10);
  config.set_classes(6);
  config.set_dropout(0.25);
  return config;
}

Graph LossGraph(const PictureMlpConfig& config, bool training) {
  Graph graph("loss");
  auto model = CreatePictureMlp(config);
  EXPECT_TRUE(model.ok()) << model.status();
  const RecordedLoss recorded = (*model)->RecordLoss(graph, 2, 1, training);
  graph.SetOutput("loss", recorded.loss.mean);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(recorded.metrics.size(), training ? 0 : (*model)->Metrics().size());
  return graph;
}

TEST(PictureMlpTest, RecordsTheLoss) {
  const Graph graph = LossGraph(Small(), true);
  EXPECT_THAT(graph.blocks(), ElementsAre("layers.0", "layers.1"));
  EXPECT_EQ(graph.ToString(), R"(graph loss
input %pictures: u8[2, 5, 4, 3] batch_dim=0
input %labels: i32[2] batch_dim=0
input %seed: i64[]
input %step: i64[]
parameter %layers.0.weight: f32[9, 60] {mean=0.0, stddev=0.18257418583505536}
parameter %layers.0.bias: f32[9] {constant=0.0}
parameter %layers.1.weight: f32[10, 9] {mean=0.0, stddev=0.4714045207910317}
parameter %layers.1.bias: f32[10] {constant=0.0}
parameter %head.weight: f32[6, 10] {mean=0.0, stddev=0.01}
parameter %head.bias: f32[6] {constant=0.0}
%normalize.cast: f32[2, 5, 4, 3] = cast(%pictures) {dtype=f32}
%normalize.fill: f32[] = fill() {dtype=f32, shape=[], value=0.00784313725490196}
%normalize.multiply: f32[2, 5, 4, 3] = multiply(%normalize.cast, %normalize.fill)
%normalize.fill_1: f32[] = fill() {dtype=f32, shape=[], value=-1.0}
%normalize.add: f32[2, 5, 4, 3] = add(%normalize.multiply, %normalize.fill_1)
%flatten.reshape: f32[2, 60] = reshape(%normalize.add) {shape=[2, 60]}
%layers.0.matmul: f32[2, 9] = matmul(%flatten.reshape, %layers.0.weight) {transpose_a=false, transpose_b=true}
%layers.0.add: f32[2, 9] = add(%layers.0.matmul, %layers.0.bias)
%layers.0.relu: f32[2, 9] = relu(%layers.0.add)
%layers.0.dropout: f32[2, 9] = dropout(%layers.0.relu, %seed, %step) {probability=0.25, random_path="layers.0.dropout"}
%layers.1.matmul: f32[2, 10] = matmul(%layers.0.dropout, %layers.1.weight) {transpose_a=false, transpose_b=true}
%layers.1.add: f32[2, 10] = add(%layers.1.matmul, %layers.1.bias)
%layers.1.relu: f32[2, 10] = relu(%layers.1.add)
%layers.1.dropout: f32[2, 10] = dropout(%layers.1.relu, %seed, %step) {probability=0.25, random_path="layers.1.dropout"}
%head.matmul: f32[2, 6] = matmul(%layers.1.dropout, %head.weight) {transpose_a=false, transpose_b=true}
%head.add: f32[2, 6] = add(%head.matmul, %head.bias)
%loss.log_sum_exp.lse: f32[2], %loss.log_sum_exp.target_logit: f32[2] = log_sum_exp(%head.add, %labels) {label_smoothing=0.0}
%loss.valid_mask: f32[2] = valid_mask(%labels) {dtype=f32, ignore_index=-100}
%loss.subtract: f32[2] = subtract(%loss.log_sum_exp.lse, %loss.log_sum_exp.target_logit)
%loss.multiply: f32[2] = multiply(%loss.subtract, %loss.valid_mask)
%loss.reduce_sum: f32[] = reduce_sum(%loss.multiply) {axes=[0], keep_dims=false}
%loss.reduce_sum_1: f32[] = reduce_sum(%loss.valid_mask) {axes=[0], keep_dims=false}
%loss.fill: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%loss.maximum: f32[] = maximum(%loss.reduce_sum_1, %loss.fill)
%loss.divide: f32[] = divide(%loss.reduce_sum, %loss.maximum)
output loss = %loss.divide
)");
}

TEST(PictureMlpTest, WithoutHiddenLayersItIsLinear) {
  PictureMlpConfig config = Small();
  config.clear_hidden();
  EXPECT_THAT(LossGraph(config, true).ToString(), HasSubstr("parameter %head.weight: f32[6, 60]"));
}

TEST(PictureMlpTest, OtherActivations) {
  PictureMlpConfig config = Small();
  config.set_activation("relu");
  EXPECT_EQ(LossGraph(config, true).ToString(), LossGraph(Small(), true).ToString());
  config.set_activation("gelu_erf");
  EXPECT_THAT(LossGraph(config, true).ToString(), HasSubstr("= gelu(%layers.0.add) "));
}

// An evaluation drops nothing, and counts the plain loss of the pictures as they are.
TEST(PictureMlpTest, AugmentsDropsAndSmoothsInTrainingOnly) {
  PictureMlpConfig config = Small();
  config.set_label_smoothing(0.125);
  config.set_crop_padding(2);
  config.set_flips(true);
  const std::string training = LossGraph(config, true).ToString();
  EXPECT_THAT(training, HasSubstr("= random_crop_flip(%pictures, %seed, %step) {flip=true, "));
  EXPECT_THAT(training, HasSubstr("{label_smoothing=0.125}"));
  PictureMlpConfig plain = Small();
  plain.set_dropout(0);
  EXPECT_EQ(LossGraph(config, false).ToString(), LossGraph(plain, false).ToString());
}

TEST(PictureMlpTest, ReadsAndPredictsAsOtherPictureModels) {
  const auto model = *CreatePictureMlp(Small());
  EXPECT_EQ(FieldsText(model->BatchFields(1)), "pictures u8[5, 4, 3] and labels i32[]");
  EXPECT_THAT(model->Metrics(), ElementsAre("accuracy", "top5"));
  Graph graph("predict");
  std::vector<std::string> names;
  for (const Prediction& each : model->RecordPredictions(model->RecordOutput(graph, 2, 1))) {
    names.push_back(each.name);
  }
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_THAT(names, ElementsAre("class", "probability", "top5"));
}

TEST(PictureMlpTest, NamesFieldsThatAreNotPossible) {
  const auto error = [](const PictureMlpConfig& config) {
    return std::string(CreatePictureMlp(config).status().message());
  };
  PictureMlpConfig config = Small();
  config.set_height(0);
  EXPECT_EQ(error(config), "model.height: 0 is not from 1 to 4096");
  config = Small();
  config.add_hidden(0);
  EXPECT_EQ(error(config), "model.hidden: 0 is not from 1 to 1048576");
  config = Small();
  config.set_classes(1);
  EXPECT_EQ(error(config), "model.classes: 1 is not from 2 to 1048576");
  config = Small();
  config.set_dropout(1);
  EXPECT_EQ(error(config), "model.dropout: 1 is not in [0, 1)");
  config = Small();
  config.set_crop_padding(4);
  EXPECT_EQ(error(config), "model.crop_padding: 4 is not from 0 to 3");
  config = Small();
  config.set_activation("tanh");
  EXPECT_EQ(error(config),
            "model.activation: \"tanh\" is none of \"relu\", \"gelu_tanh\" and \"gelu_erf\"");
}

}  // namespace
}  // namespace tessera
