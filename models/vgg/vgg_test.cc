#include "models/vgg/vgg.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/graph/graph.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The last pool would leave nothing of pictures of 7 x 5, and is left out.
VggConfig Small() {
  VggConfig config;
  config.set_height(7);
  config.set_width(5);
  config.set_channels(3);
  for (const int64_t channels : {4, 0, 6, 0, 8, 0}) config.add_layers(channels);
  config.add_hidden(9);
  config.add_hidden(10);
  config.set_classes(6);
  config.set_dropout(0.25);
  return config;
}

Graph LossGraph(const VggConfig& config, bool training) {
  Graph graph("loss");
  auto model = CreateVgg(config);
  EXPECT_TRUE(model.ok()) << model.status();
  const RecordedLoss recorded = (*model)->RecordLoss(graph, 2, 1, training);
  graph.SetOutput("loss", recorded.loss.mean);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  EXPECT_EQ(recorded.metrics.size(), training ? 0 : (*model)->Metrics().size());
  return graph;
}

TEST(VggTest, RecordsTheLoss) {
  const Graph graph = LossGraph(Small(), true);
  EXPECT_THAT(graph.blocks(),
              ElementsAre("features.0", "features.1", "features.2", "hidden.0", "hidden.1"));
  EXPECT_EQ(graph.ToString(), R"(graph loss
input %pictures: u8[2, 7, 5, 3] batch_dim=0
input %labels: i32[2] batch_dim=0
input %seed: i64[]
input %step: i64[]
parameter %features.0.weight: f32[4, 3, 3, 3] {mean=0.0, stddev=0.23570226039551584}
parameter %features.0.bias: f32[4] {constant=0.0}
parameter %features.1.weight: f32[6, 3, 3, 4] {mean=0.0, stddev=0.19245008972987526}
parameter %features.1.bias: f32[6] {constant=0.0}
parameter %features.2.weight: f32[8, 3, 3, 6] {mean=0.0, stddev=0.16666666666666666}
parameter %features.2.bias: f32[8] {constant=0.0}
parameter %hidden.0.weight: f32[9, 1, 1, 8] {mean=0.0, stddev=0.4714045207910317}
parameter %hidden.0.bias: f32[9] {constant=0.0}
parameter %hidden.1.weight: f32[10, 9] {mean=0.0, stddev=0.4472135954999579}
parameter %hidden.1.bias: f32[10] {constant=0.0}
parameter %head.weight: f32[6, 10] {mean=0.0, stddev=0.01}
parameter %head.bias: f32[6] {constant=0.0}
%normalize.cast: f32[2, 7, 5, 3] = cast(%pictures) {dtype=f32}
%normalize.fill: f32[] = fill() {dtype=f32, shape=[], value=0.00784313725490196}
%normalize.multiply: f32[2, 7, 5, 3] = multiply(%normalize.cast, %normalize.fill)
%normalize.fill_1: f32[] = fill() {dtype=f32, shape=[], value=-1.0}
%normalize.add: f32[2, 7, 5, 3] = add(%normalize.multiply, %normalize.fill_1)
%features.0.convolution: f32[2, 7, 5, 4] = convolution(%normalize.add, %features.0.weight) {dilation=[1, 1], groups=1, padding=[1, 1], stride=[1, 1]}
%features.0.add: f32[2, 7, 5, 4] = add(%features.0.convolution, %features.0.bias)
%features.0.max_pool: f32[2, 3, 2, 4], %features.0.max_pool.index: u8[2, 3, 2, 4] = max_pool(%features.0.add) {padding=[0, 0], stride=[2, 2], window=[2, 2]}
%features.0.relu: f32[2, 3, 2, 4] = relu(%features.0.max_pool)
%features.1.convolution: f32[2, 3, 2, 6] = convolution(%features.0.relu, %features.1.weight) {dilation=[1, 1], groups=1, padding=[1, 1], stride=[1, 1]}
%features.1.add: f32[2, 3, 2, 6] = add(%features.1.convolution, %features.1.bias)
%features.1.max_pool: f32[2, 1, 1, 6], %features.1.max_pool.index: u8[2, 1, 1, 6] = max_pool(%features.1.add) {padding=[0, 0], stride=[2, 2], window=[2, 2]}
%features.1.relu: f32[2, 1, 1, 6] = relu(%features.1.max_pool)
%features.2.convolution: f32[2, 1, 1, 8] = convolution(%features.1.relu, %features.2.weight) {dilation=[1, 1], groups=1, padding=[1, 1], stride=[1, 1]}
%features.2.add: f32[2, 1, 1, 8] = add(%features.2.convolution, %features.2.bias)
%features.2.relu: f32[2, 1, 1, 8] = relu(%features.2.add)
%hidden.0.convolution: f32[2, 1, 1, 9] = convolution(%features.2.relu, %hidden.0.weight) {dilation=[1, 1], groups=1, padding=[0, 0], stride=[1, 1]}
%hidden.0.add: f32[2, 1, 1, 9] = add(%hidden.0.convolution, %hidden.0.bias)
%hidden.0.relu: f32[2, 1, 1, 9] = relu(%hidden.0.add)
%hidden.0.reshape: f32[2, 9] = reshape(%hidden.0.relu) {shape=[2, 9]}
%hidden.0.dropout: f32[2, 9] = dropout(%hidden.0.reshape, %seed, %step) {probability=0.25, random_path="hidden.0.dropout"}
%hidden.1.matmul: f32[2, 10] = matmul(%hidden.0.dropout, %hidden.1.weight) {transpose_a=false, transpose_b=true}
%hidden.1.add: f32[2, 10] = add(%hidden.1.matmul, %hidden.1.bias)
%hidden.1.relu: f32[2, 10] = relu(%hidden.1.add)
%hidden.1.dropout: f32[2, 10] = dropout(%hidden.1.relu, %seed, %step) {probability=0.25, random_path="hidden.1.dropout"}
%head.matmul: f32[2, 6] = matmul(%hidden.1.dropout, %head.weight) {transpose_a=false, transpose_b=true}
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

VggConfig WithBatchNorm() {
  VggConfig config = Small();
  config.set_batch_norm(true);
  return config;
}

// Batch norm is between a convolution, which has no bias, and its ReLU, and in no flat layer.
TEST(VggTest, NormalizesAfterEachConvolution) {
  const std::string text = LossGraph(WithBatchNorm(), true).ToString();
  EXPECT_THAT(text, HasSubstr(R"(
parameter %features.1.weight: f32[6, 3, 3, 4] {mean=0.0, stddev=0.19245008972987526}
parameter %features.1.norm.weight: f32[6] {constant=1.0}
parameter %features.1.norm.bias: f32[6] {constant=0.0}
statistic %features.1.norm.running_mean: f32[6] {constant=0.0}
statistic %features.1.norm.running_variance: f32[6] {constant=1.0}
parameter %features.2.weight: )"));
  EXPECT_THAT(text, HasSubstr("parameter %hidden.0.bias: f32[9] {constant=0.0}\n"
                              "parameter %hidden.1.weight"));
  EXPECT_THAT(text, HasSubstr("%features.0.norm.batch_norm_sum: f32[1, 4], "
                              "%features.0.norm.batch_norm_sum.count: f32[1, 1] = "
                              "batch_norm_sum(%features.0.convolution, %normalize.valid_mask) "
                              "{group_rows=2, groups=1}\n"));
  EXPECT_THAT(text, HasSubstr("= max_pool(%features.0.norm.batch_norm) "));
  EXPECT_THAT(text, HasSubstr("leave %features.2.norm.running_variance = "));
}

TEST(VggTest, EvaluationReadsTheRunningStatistics) {
  const Graph graph = LossGraph(WithBatchNorm(), false);
  const std::string text = graph.ToString();
  EXPECT_THAT(text, HasSubstr("add(%features.0.norm.running_variance, "));
  EXPECT_THAT(text, Not(HasSubstr("batch_norm_sum")));
  EXPECT_THAT(text, Not(HasSubstr("leave ")));
}

TEST(VggTest, GroupsAreThoseOfTheConfiguration) {
  VggConfig config = WithBatchNorm();
  config.set_batch_norm_groups(2);
  EXPECT_THAT(LossGraph(config, true).ToString(), HasSubstr("{group_rows=1, groups=2}"));
  config.set_batch_norm_groups(3);
  Graph graph("loss");
  (*CreateVgg(config))->RecordLoss(graph, 2, 1, /*training=*/true);
  EXPECT_EQ(std::string(graph.status().message()),
            "batch_norm: attribute groups=3 must be 2, as 2 rows are groups of 1");
}

TEST(VggTest, WithoutHiddenLayersTheHeadReadsAllThatIsLeft) {
  VggConfig config = Small();
  config.clear_hidden();
  const Graph graph = LossGraph(config, false);
  EXPECT_THAT(graph.ToString(), HasSubstr("parameter %head.weight: f32[6, 8]"));
}

// An evaluation, whose last batch may be short, counts the plain loss of the pictures as they are.
TEST(VggTest, AugmentsAndSmoothsInTrainingOnly) {
  VggConfig config = Small();
  config.set_label_smoothing(0.125);
  config.set_crop_padding(2);
  config.set_flips(true);
  const std::string training = LossGraph(config, true).ToString();
  EXPECT_THAT(training,
              HasSubstr("%augment.random_crop_flip: u8[2, 7, 5, 3] = random_crop_flip(%pictures, "
                        "%seed, %step) {flip=true, padding=2, "
                        "random_path=\"augment.random_crop_flip\"}"));
  EXPECT_THAT(training, HasSubstr("= cast(%augment.random_crop_flip) {dtype=f32}"));
  EXPECT_THAT(training, HasSubstr("log_sum_exp(%head.add, %labels) {label_smoothing=0.125}"));
  EXPECT_EQ(LossGraph(config, false).ToString(), LossGraph(Small(), false).ToString());

  config.set_crop_padding(0);
  EXPECT_THAT(LossGraph(config, true).ToString(), HasSubstr("{flip=true, padding=0, "));
  config.set_crop_padding(1);
  config.set_flips(false);
  EXPECT_THAT(LossGraph(config, true).ToString(), HasSubstr("{flip=false, padding=1, "));
}

TEST(VggTest, SaysWhatItReadsAndMeasures) {
  const auto model = CreateVgg(Small());
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(FieldsText((*model)->BatchFields(1)), "pictures u8[7, 5, 3] and labels i32[]");
  EXPECT_THAT((*model)->Metrics(), ElementsAre("accuracy", "top5"));
  EXPECT_EQ((*model)->Unit(1).BatchText(3), "3 pictures");
  VggConfig few = Small();
  few.set_classes(5);
  EXPECT_THAT((*CreateVgg(few))->Metrics(), ElementsAre("accuracy"));
}

TEST(VggTest, PredictsClassesWithoutLabels) {
  const auto predictions = [](const VggConfig& config) {
    const auto model = *CreateVgg(config);
    EXPECT_EQ(FieldsText(model->PredictionFields(1)), "pictures u8[7, 5, 3]");
    Graph graph("predict");
    std::vector<std::string> texts;
    for (const Prediction& each : model->RecordPredictions(model->RecordOutput(graph, 2, 1))) {
      texts.push_back(absl::StrCat(each.name, " ", TypeToString(each.values.type())));
    }
    EXPECT_TRUE(graph.status().ok()) << graph.status();
    EXPECT_EQ(graph.inputs().size(), 1u);
    return texts;
  };
  VggConfig config = Small();
  EXPECT_THAT(predictions(config),
              ElementsAre("class i32[2]", "probability f32[2]", "top5 i32[2, 5]"));
  config.set_classes(5);
  EXPECT_THAT(predictions(config), ElementsAre("class i32[2]", "probability f32[2]"));
}

TEST(VggTest, NamesFieldsThatAreNotPossible) {
  const auto error = [](const VggConfig& config) {
    return std::string(CreateVgg(config).status().message());
  };
  VggConfig config = Small();
  config.set_width(0);
  EXPECT_EQ(error(config), "model.width: 0 is not from 1 to 4096");
  config = Small();
  config.add_layers(-1);
  EXPECT_EQ(error(config), "model.layers: -1 is not from 0 to 16384");
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
  config.set_label_smoothing(-0.1);
  EXPECT_EQ(error(config), "model.label_smoothing: -0.1 is not in [0, 1)");
  config = Small();
  config.set_crop_padding(5);
  EXPECT_EQ(error(config), "model.crop_padding: 5 is not from 0 to 4");
  config = Small();
  config.set_batch_norm_groups(2);
  EXPECT_EQ(error(config),
            "model.batch_norm_groups: the model has no batch norm; set model.batch_norm to true");
  config = WithBatchNorm();
  config.set_batch_norm_groups(-1);
  EXPECT_EQ(error(config), "model.batch_norm_groups: -1 is not from 0 to 1048576");
}

}  // namespace
}  // namespace tessera
