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
%normalize.cast: f32[2, 7, 5, 3] = cast(%pictures) {dtype=f32}
%normalize.fill: f32[] = fill() {dtype=f32, shape=[], value=0.00784313725490196}
%normalize.multiply: f32[2, 7, 5, 3] = multiply(%normalize.cast, %normalize.fill)
%normalize.fill_1: f32[] = fill() {dtype=f32, shape=[], value=-1.0}
%normalize.add: f32[2, 7, 5, 3] = add(%normalize.multiply, %normalize.fill_1)
%features.0.convolution: f32[2, 7, 5, 4] = convolution(%normalize.add, %features.0.weight) {dilation=[1, 1], groups=1, padding=[1, 1], stride=[1, 1]}
%features.0.add: f32[2, 7, 5, 4] = add(%features.0.convolution, %features.0.bias)
%features.0.relu: f32[2, 7, 5, 4] = relu(%features.0.add)
%pool.1.max_pool: f32[2, 3, 2, 4], %pool.1.max_pool.index: u8[2, 3, 2, 4] = max_pool(%features.0.relu) {padding=[0, 0], stride=[2, 2], window=[2, 2]}
%features.1.convolution: f32[2, 3, 2, 6] = convolution(%pool.1.max_pool, %features.1.weight) {dilation=[1, 1], groups=1, padding=[1, 1], stride=[1, 1]}
%features.1.add: f32[2, 3, 2, 6] = add(%features.1.convolution, %features.1.bias)
%features.1.relu: f32[2, 3, 2, 6] = relu(%features.1.add)
%pool.2.max_pool: f32[2, 1, 1, 6], %pool.2.max_pool.index: u8[2, 1, 1, 6] = max_pool(%features.1.relu) {padding=[0, 0], stride=[2, 2], window=[2, 2]}
%features.2.convolution: f32[2, 1, 1, 8] = convolution(%pool.2.max_pool, %features.2.weight) {dilation=[1, 1], groups=1, padding=[1, 1], stride=[1, 1]}
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
%loss.linear_log_sum_exp.lse: f32[2], %loss.linear_log_sum_exp.target_logit: f32[2] = linear_log_sum_exp(%hidden.1.dropout, %head.weight, %labels)
%loss.valid_mask: f32[2] = valid_mask(%labels) {dtype=f32, ignore_index=-100}
%loss.subtract: f32[2] = subtract(%loss.linear_log_sum_exp.lse, %loss.linear_log_sum_exp.target_logit)
%loss.multiply: f32[2] = multiply(%loss.subtract, %loss.valid_mask)
%loss.reduce_sum: f32[] = reduce_sum(%loss.multiply) {axes=[0], keep_dims=false}
%loss.reduce_sum_1: f32[] = reduce_sum(%loss.valid_mask) {axes=[0], keep_dims=false}
%loss.fill: f32[] = fill() {dtype=f32, shape=[], value=1.0}
%loss.maximum: f32[] = maximum(%loss.reduce_sum_1, %loss.fill)
%loss.divide: f32[] = divide(%loss.reduce_sum, %loss.maximum)
output loss = %loss.divide
)");
}

TEST(VggTest, WithoutHiddenLayersTheHeadReadsAllThatIsLeft) {
  VggConfig config = Small();
  config.clear_hidden();
  const Graph graph = LossGraph(config, false);
  EXPECT_THAT(graph.ToString(), HasSubstr("parameter %head.weight: f32[6, 8]"));
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
}

}  // namespace
}  // namespace tessera
