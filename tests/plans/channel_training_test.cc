// Checks that a VGG trains under Plans by channel as on one process: convolutions by output and by
// input channels and in pairs of both, what lies between them, and batches that another axis
// splits.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/compile/compile.h"
#include "core/graph/graph.h"
#include "core/model/model.h"
#include "core/ops/ops.h"
#include "core/train/programs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/vgg/vgg.h"
#include "strategies/conformance/compare_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// No number of ranks but 1 divides all channels, units and classes. The first flat layer is a
// convolution of 2 x 2 pictures.
VggConfig SmallConfig() {
  VggConfig model;
  model.set_height(5);
  model.set_width(4);
  model.set_channels(3);
  for (const int64_t channels : {5, 0, 7, 6}) model.add_layers(channels);
  model.add_hidden(9);
  model.add_hidden(8);
  model.set_classes(7);
  model.set_dropout(0.1);
  model.set_label_smoothing(0.1);
  return model;
}

TrainingRun RunOf(std::shared_ptr<const Model> model, int batch) {
  RunConfig config;
  config.set_batch(batch);
  config.set_sequence(1);
  config.mutable_optimizer()->set_kind("sgd");
  config.mutable_optimizer()->set_lr(0.1);
  config.mutable_optimizer()->set_momentum(0.9);
  TrainingRun run = RecordTraining(std::move(model), config);
  run.steps = 3;
  run.check_memory = true;
  AddOtherPrograms(run);
  return run;
}

TrainingRun Plain(int batch = 6) { return RunOf(*CreateVgg(SmallConfig()), batch); }

TrainingRun Normalized(int64_t groups, int batch = 6) {
  VggConfig model = SmallConfig();
  model.set_batch_norm(true);
  model.set_batch_norm_groups(groups);
  TrainingRun run = RunOf(*CreateVgg(model), batch);
  run.ignored = 0.3;  // so that some rows are not valid
  return run;
}

constexpr char kModel[] = "mesh { name: 'model' } ";
constexpr char kDataModel[] =
    "mesh { name: 'data' size: 2 } mesh { name: 'model' } "
    "store { path: 'pictures|labels' layout: 'data: S(0)' } ";

// Every convolution by output channels: its input is gathered.
constexpr char kByOutput[] =
    "store { path: 'features.*.*|hidden.0.*' layout: 'model: S(0)' } "
    "compute { path: 'features.*.convolution|hidden.0.convolution' "
    "signature: 'model: B, S(0) -> S(3)' } ";
// Every convolution by input channels: its output is a partial sum.
constexpr char kByInput[] =
    "store { path: 'features.*.weight|hidden.0.weight' layout: 'model: S(3)' } "
    "compute { path: 'features.*.convolution|hidden.0.convolution' "
    "signature: 'model: S(3), S(3) -> P' } ";
// Pairs: the first by output channels, the second by input channels. Between them each rank
// computes its channels of bias, ReLU, pool and batch norm.
constexpr char kPairs[] =
    "store { path: 'features.0.*|features.2.*' layout: 'model: S(0)' } "
    "compute { path: 'features.0.convolution|features.2.convolution' "
    "signature: 'model: B, S(0) -> S(3)' } "
    "store { path: 'features.1.weight|hidden.0.weight' layout: 'model: S(3)' } "
    "compute { path: 'features.1.convolution|hidden.0.convolution' "
    "signature: 'model: S(3), S(3) -> P' } ";
// The flat layers as a pair, and the classes.
constexpr char kFlatLayers[] =
    "store { path: 'hidden.0.*' layout: 'model: S(0)' } "
    "compute { path: 'hidden.0.convolution' signature: 'model: B, S(0) -> S(3)' } "
    "store { path: 'hidden.1.weight' layout: 'model: S(1)' } "
    "compute { path: 'hidden.1.matmul' signature: 'model: S(1), S(1) -> P' } "
    "store { path: 'head.*' layout: 'model: S(0)' } "
    "compute { path: 'head.matmul' signature: 'model: B, S(0) -> S(1)' } "
    "compute { path: 'loss.log_sum_exp' signature: 'model: S(1), B -> P(lse), P' } ";
constexpr const char* kSplits[] = {kByOutput, kByInput, kPairs, kFlatLayers};

std::string MicroBatches(int count) {
  return absl::StrCat("parts { graph: 'train' micro_batches: ", count, " } ");
}

TEST(ChannelTrainingTest, Convolutions) {
  for (const char* split : kSplits) {
    SCOPED_TRACE(split);
    const Plan plan = StagePlan(absl::StrCat(kModel, split));
    ExpectSame(Plain(), plan, {1, 2, 3, 4, 8});
    ExpectSame(OnCpu(Plain()), plan, {2, 3}, kCpuTolerance);
  }
}

TEST(ChannelTrainingTest, ConvolutionsAndBatchNorm) {
  for (const char* split : kSplits) {
    SCOPED_TRACE(split);
    const Plan plan = StagePlan(absl::StrCat(kModel, split));
    for (const int64_t groups : {1, 3}) ExpectSame(Normalized(groups), plan, {2, 3});
    ExpectSame(Normalized(1), plan, {4, 8});
    ExpectSame(OnCpu(Normalized(2)), plan, {2, 3}, kCpuTolerance);
  }
}

TEST(ChannelTrainingTest, DataAndChannels) {
  for (const char* split : kSplits) {
    SCOPED_TRACE(split);
    const Plan plan = StagePlan(absl::StrCat(kDataModel, split));
    ExpectSame(Plain(), plan, {4, 6});
    for (const int64_t groups : {1, 2, 3}) ExpectSame(Normalized(groups), plan, {4});
    ExpectSame(OnCpu(Normalized(1)), plan, {4}, kCpuTolerance);
  }
}

// The outer axis of the mesh splits channels, the inner one the batch.
TEST(ChannelTrainingTest, ChannelsAndData) {
  for (const char* split : kSplits) {
    SCOPED_TRACE(split);
    const Plan plan =
        StagePlan(absl::StrCat("mesh { name: 'model' size: 2 } mesh { name: 'data' } "
                               "store { path: 'pictures|labels' layout: 'data: S(0)' } ",
                               split));
    for (const int64_t groups : {1, 2}) ExpectSame(Normalized(groups), plan, {4, 6});
  }
}

// Krizhevsky 2014, "One weird trick for parallelizing convolutional neural networks": the ranks
// that split the batch before the flat layers split the units of those.
TEST(ChannelTrainingTest, FlatLayersByUnitBehindRowsOfTheBatch) {
  std::string split = absl::StrCat(
      "mesh { name: 'model' } store { path: 'pictures|labels' layout: 'model: S(0)' } ",
      kFlatLayers);
  ExpectSame(Plain(), StagePlan(split), {2, 3, 4});
  ExpectSame(Plain(), StagePlan(split + MicroBatches(2)), {2, 3});
  for (const int64_t groups : {1, 2}) ExpectSame(Normalized(groups), StagePlan(split), {2, 4});
  ExpectSame(OnCpu(Normalized(1)), StagePlan(split), {2}, kCpuTolerance);
}

TEST(ChannelTrainingTest, ChannelsOverTwoAxes) {
  const std::string meshes = "mesh { name: 'a' size: 2 } mesh { name: 'b' } ";
  const std::string both =
      "store { path: 'features.*.*|hidden.0.*' layout: 'a: S(0), b: S(0)' } "
      "compute { path: 'features.*.convolution|hidden.0.convolution' "
      "signature: 'a: B, S(0) -> S(3); b: B, S(0) -> S(3)' } ";
  const std::string out_and_in =
      "store { path: 'features.*.weight|hidden.0.weight' layout: 'a: S(0), b: S(3)' } "
      "compute { path: 'features.*.convolution|hidden.0.convolution' "
      "signature: 'a: B, S(0) -> S(3); b: S(3), S(3) -> P' } ";
  for (const std::string& split : {both, out_and_in}) {
    SCOPED_TRACE(split);
    ExpectSame(Plain(), StagePlan(meshes + split), {4, 6});
    ExpectSame(Normalized(2), StagePlan(meshes + split), {4, 6});
  }
}

TEST(ChannelTrainingTest, InMicroBatchesAndWithRecomputation) {
  for (const char* split : kSplits) {
    SCOPED_TRACE(split);
    const std::string parts =
        "parts { graph: 'train' micro_batches: 3 recompute: 'features.*' recompute: 'hidden.0' } ";
    ExpectSame(Plain(12), StagePlan(absl::StrCat(kModel, split, parts)), {2, 3});
    ExpectSame(Normalized(6, 12), StagePlan(absl::StrCat(kDataModel, split, parts)), {4});
  }
}

// Flat groups over one axis, whose members the other axis splits by channel.
TEST(ChannelTrainingTest, FullyShardedByChannel) {
  for (const char* gather : {"EACH_PHASE", "ONCE", "AFTER_UPDATE"}) {
    const std::string groups = absl::StrCat(
        "group { path: 'features.*|hidden.*' each: true over: 'data' gather: ", gather, " } ");
    for (const char* split : kSplits) {
      SCOPED_TRACE(absl::StrCat(groups, split));
      ExpectSame(Normalized(2), StagePlan(absl::StrCat(kDataModel, groups, split)), {4});
    }
  }
}

// Each rank has the parameters and the statistics of its channels, whether or not it computes them.
TEST(ChannelTrainingTest, BatchNormThatIsStoredByChannel) {
  const std::string norm = "store { path: 'features.*.norm.*' layout: 'model: S(0)' } ";
  for (const char* split : kSplits) {
    SCOPED_TRACE(split);
    ExpectSame(Normalized(1), StagePlan(absl::StrCat(kModel, norm, split)), {2, 3, 4, 8});
    ExpectSame(Normalized(2), StagePlan(absl::StrCat(kDataModel, norm, split)), {4, 6});
  }
}

// Convolutions of three groups of channels, and of one channel each.
class GroupedModel final : public Model {
 public:
  std::vector<BatchField> BatchFields(int64_t /*sequence*/) const override {
    return {{"pictures", {DType::kU8, {6, 5, 6}}, 256}, {"labels", {DType::kI32, {}}, kClasses}};
  }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t /*sequence*/,
                          bool /*training*/) const override {
    const Tensor pictures = graph.Input("pictures", {DType::kU8, {batch, 6, 5, 6}}, 0);
    const Tensor labels = graph.Input("labels", {DType::kI32, {batch}}, 0);
    Tensor x = Scale(Cast(pictures, DType::kF32), 1.0 / 256);
    x = Layer(graph, "three", x, 9, 3);
    x = MaxPool(x, {});
    x = Layer(graph, "each", x, 9, 9);
    x = AveragePool(x, {});
    x = Reshape(x, {batch, 9});
    Scope scope(&graph, "head");
    const Tensor weight = graph.Parameter("weight", {kClasses, 9}, Initializer::Normal(0, 0.5));
    return CrossEntropy(Linear(x, weight), labels);
  }

 private:
  static constexpr int64_t kClasses = 4;

  static Tensor Layer(Graph& graph, const char* name, Tensor x, int64_t channels, int64_t groups) {
    Scope scope(&graph, name, Scope::kBlock);
    const Tensor weight =
        graph.Parameter("weight", {channels, 3, 3, x.dim(3) / groups}, Initializer::Normal(0, 0.5));
    const Tensor bias = graph.Bias("bias", {channels});
    return Relu(Conv2d(x, weight, bias, {.padding = {1, 1}, .groups = groups}));
  }
};

TEST(ChannelTrainingTest, GroupConvolutionsByGroup) {
  const std::string split =
      "store { path: 'three.*' layout: 'model: S(0, 3)' } "
      "store { path: 'each.*' layout: 'model: S(0)' } "
      "compute { path: 'three.convolution' signature: 'model: S(3, 2), S(0, 3) -> S(3, 3)' } "
      "compute { path: 'each.convolution' signature: 'model: S(3), S(0) -> S(3)' } ";
  const TrainingRun run = RunOf(std::make_shared<GroupedModel>(), 6);
  ExpectSame(run, StagePlan(kModel + split), {2, 3, 4});
  ExpectSame(run, StagePlan(kDataModel + split), {4, 6});
  ExpectSame(OnCpu(run), StagePlan(kModel + split), {2, 3}, kCpuTolerance);
  const auto refused = Train(run,
                             StagePlan(absl::StrCat(kModel,
                                                    "compute { path: 'three.convolution' "
                                                    "signature: 'model: B, S(0) -> S(3)' }")),
                             2);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("S(3, 2), S(0, 3) -> S(3, 3)"));
}

// Returns the paths of the collectives in a phase of a step.
std::vector<std::string> CollectivesOf(const Program& program, Phase phase) {
  std::vector<std::string> paths;
  for (const Instruction& instruction : program.instructions) {
    if (!program.Communicates(instruction) || instruction.phase != phase) continue;
    paths.push_back(instruction.path);
  }
  return paths;
}

// The first pair reads the pictures, which need no gradient.
TEST(ChannelTrainingTest, PairsCommunicateOnceInEachDirection) {
  const TrainingRun run = Plain();
  const auto backend = run.backend();
  const auto compiled =
      CompileRun(run.graphs, StagePlan(absl::StrCat(kModel, kPairs)), *backend, 2);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Program& program = *compiled->FindProgram(kTrain);
  EXPECT_THAT(CollectivesOf(program, Phase::kForward),
              ElementsAre("features.1.convolution.all_reduce", "hidden.0.convolution.all_reduce"));
  EXPECT_THAT(CollectivesOf(program, Phase::kBackward),
              ElementsAre("features.1.relu.grad.all_reduce"));
}

TEST(ChannelTrainingTest, DocumentedPlans) {
  for (const char* file : {kChannelParallel, kFlatLayersParallel}) {
    SCOPED_TRACE(file);
    ExpectSame(Plain(), file, {2, 3, 4});
    ExpectSame(OnCpu(Plain()), file, {2}, kCpuTolerance);
    for (const int64_t groups : {1, 2}) ExpectSame(Normalized(groups), file, {2, 3});
  }
}

TEST(ChannelTrainingTest, ConvolutionsInSlices) {
  for (const int dimension : {0, 3}) {
    const std::string slice = absl::StrCat(
        "slice { path: 'features.1.weight|hidden.0.weight' dimension: ", dimension, " count: 2 } ");
    SCOPED_TRACE(slice);
    ExpectSame(Normalized(2), StagePlan(slice), {1});
    ExpectSame(Normalized(2),
               StagePlan(absl::StrCat(
                   slice,
                   "mesh { name: 'data' } store { path: 'pictures|labels' layout: 'data: S(0)' "
                   "} store { path: 'features.1.weight[0:*]' layout: 'data: S(0)' } ")),
               {2, 3});
  }
  const auto result =
      Train(Plain(), StagePlan("slice { path: 'features.1.weight' dimension: 1 count: 3 }"), 1);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("features.1.convolution"));
}

}  // namespace
}  // namespace tessera
