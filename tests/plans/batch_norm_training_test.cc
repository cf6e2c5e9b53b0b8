// Checks that a network with batch norm trains on ranks and in micro-batches as on one process with
// the same groups, whichever ranks have rows of a group.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/compile/compile.h"
#include "core/model/language_model.h"
#include "core/plan/testing/completion.h"
#include "core/tensor/convert.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

constexpr int64_t kVocabulary = 11, kChannels = 6, kBlocks = 2;

// Embedded tokens [batch, sequence, channels], normalised over rows and sequence in each block. A
// row without a target that counts is not valid.
class BatchNormModel final : public LanguageModel {
 public:
  explicit BatchNormModel(int64_t groups) : groups_(groups) {}

  int64_t vocabulary() const override { return kVocabulary; }
  int64_t max_sequence() const override { return 64; }

  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                          bool training) const override {
    const TensorType type = {DType::kI32, {batch, sequence}};
    const Tensor tokens = graph.Input("tokens", type, 0);
    const Tensor targets = graph.Input("targets", type, 0);
    const Tensor table =
        graph.Parameter("embed.weight", {kVocabulary, kChannels}, Initializer::Normal(0, 0.5));
    const Tensor valid = ReduceMax(ValidMask(targets), {1});
    Tensor x = Embedding(table, tokens);
    for (int64_t block = 0; block < kBlocks; ++block) {
      x = RecordBlock(graph, block, x, training ? valid : Tensor());
    }
    Scope scope(&graph, "loss");
    return LinearCrossEntropy(x, table, targets);
  }

  Tensor RecordLogits(Graph& graph, int64_t /*batch*/, int64_t /*sequence*/) const override {
    graph.Fail(absl::UnimplementedError("this model is only trained"));
    return {};
  }
  Tensor RecordNextToken(Graph& graph, int64_t length) const override {
    return RecordLogits(graph, 1, length);
  }

 private:
  // Evaluates if `valid` is invalid.
  Tensor RecordBlock(Graph& graph, int64_t block, Tensor x, Tensor valid) const {
    Scope scope(&graph, absl::StrCat("blocks.", block), Scope::kBlock);
    const Tensor weight =
        graph.Parameter("weight", {kChannels, kChannels}, Initializer::Normal(0, 0.5));
    const Tensor scale = graph.Parameter("scale", {kChannels}, Initializer::Constant(1));
    const Tensor shift = graph.Bias("shift", {kChannels});
    const Tensor product = Linear(x, weight);
    const RunningMoments running = DeclareRunningMoments(graph, kChannels);
    const Tensor y =
        valid.valid() ? BatchNormUpdating(product, scale, shift, running, valid, {{1e-5, groups_}})
                      : BatchNormWith(product, scale, shift, running.mean, running.variance);
    return Add(x, Gelu(y, GeluKind::kTanh));
  }

  const int64_t groups_;
};

TrainingRun Normalized(int batch, int64_t groups) {
  RunConfig config;
  config.set_batch(batch);
  config.set_sequence(2);
  config.mutable_optimizer()->set_kind("sgd");
  config.mutable_optimizer()->set_lr(0.1);
  TrainingRun run = RecordTraining(std::make_shared<BatchNormModel>(groups), config);
  run.steps = 3;
  run.ignored = 0.4;  // so that some rows are not valid
  run.check_memory = true;
  AddOtherPrograms(run);
  return run;
}

constexpr char kSplitBatch[] =
    "mesh { name: 'data' } store { path: 'tokens|targets' layout: 'data: S(0)' } ";
constexpr char kSharded[] = "group { path: 'blocks.*' each: true over: 'data' } ";

std::string MicroBatches(int count) {
  return absl::StrCat("parts { graph: 'train' micro_batches: ", count, " } ");
}

// Ranks have parts of groups, whole groups, or the last ranks have fewer rows than others.
TEST(BatchNormTrainingTest, RanksComputeTheStatisticsOfGroups) {
  for (const int64_t groups : {1, 2, 4, 8}) {
    SCOPED_TRACE(absl::StrCat(groups, " groups"));
    ExpectSame(Normalized(8, groups), StagePlan(kSplitBatch), {2, 3, 4});
    ExpectSame(Normalized(8, groups), StagePlan(absl::StrCat(kSplitBatch, kSharded)), {2, 3});
  }
  ExpectSame(Normalized(7, 3), StagePlan(kSplitBatch), {2, 3});
}

// The batch is split by both axes: 5 groups over 2, and what these have over 3.
TEST(BatchNormTrainingTest, OnAMeshOfTwoAxes) {
  for (const int64_t groups : {1, 2, 5}) {
    SCOPED_TRACE(absl::StrCat(groups, " groups"));
    ExpectSame(Normalized(10, groups),
               StagePlan("mesh { name: 'a' size: 2 } mesh { name: 'b' } "
                         "store { path: 'tokens|targets' layout: 'a: S(0), b: S(0)' }"),
               {4, 6});
  }
}

TEST(BatchNormTrainingTest, OnTheCpuToo) {
  for (const int64_t groups : {1, 2}) {
    ExpectSame(OnCpu(Normalized(8, groups)), StagePlan(kSplitBatch), {2, 4}, 1e-4);
  }
}

TEST(BatchNormTrainingTest, MicroBatchesOfWholeGroups) {
  for (const int64_t groups : {2, 4, 12}) {
    SCOPED_TRACE(absl::StrCat(groups, " groups"));
    const std::string stage = absl::StrCat(kSplitBatch, MicroBatches(2));
    ExpectSame(Normalized(12, groups), StagePlan(stage), {1, 2, 3, 6});
    ExpectSame(Normalized(12, groups), StagePlan(stage + kSharded), {2});
  }
  ExpectSame(Normalized(12, 4), StagePlan(absl::StrCat(kSplitBatch, MicroBatches(4))), {2, 3});
}

// A recomputed block updates its running statistics once.
TEST(BatchNormTrainingTest, WithRecomputation) {
  for (const int64_t groups : {1, 4}) {
    SCOPED_TRACE(absl::StrCat(groups, " groups"));
    const int micro_batches = groups == 1 ? 1 : 2;
    for (const char* recompute : {"blocks.*", "blocks.*.batch_norm*|blocks.*.gelu"}) {
      const std::string stage =
          absl::StrCat(kSplitBatch, "parts { graph: 'train' micro_batches: ", micro_batches,
                       " recompute: '", recompute, "' } ");
      ExpectSame(Normalized(8, groups), StagePlan(stage), {1, 2});
      ExpectSame(Normalized(8, groups), StagePlan(stage + kSharded), {2});
    }
  }
}

// Ranks hold a part of the statistics, and of the channels.
TEST(BatchNormTrainingTest, StatisticsThatAreStoredSplit) {
  const std::string statistics =
      "store { path: '*.running_mean|*.running_variance' layout: 'data: S(0)' } ";
  ExpectSame(Normalized(8, 2), StagePlan(absl::StrCat(kSplitBatch, statistics)), {2, 4});
  ExpectSame(Normalized(8, 1),
             StagePlan(absl::StrCat("mesh { name: 'data' } ", statistics,
                                    "store { path: 'blocks.*.weight' "
                                    "layout: 'data: S(0)' } ")),
             {2, 3});
}

// Evaluation may have other micro-batches: it has no groups.
TEST(BatchNormTrainingTest, EvaluationInMicroBatches) {
  ExpectSame(Normalized(8, 1),
             StagePlan(absl::StrCat(kSplitBatch, "parts { graph: 'evaluate' micro_batches: 4 } ")),
             {1, 2});
}

// Statistics stay f32 if the model computes in 16 bits.
TEST(BatchNormTrainingTest, InSixteenBits) {
  const TrainingRun run = OnCpu(Normalized(8, 2));
  const auto exact = Train(Normalized(8, 2), Plan(), 1);
  ASSERT_TRUE(exact.ok()) << exact.status();
  for (const int ranks : {1, 2}) {
    const Plan plan = StagePlan(absl::StrCat(kSplitBatch, "precision { parameters: BF16 } "));
    const auto result = Train(run, plan, ranks);
    ASSERT_TRUE(result.ok()) << result.status();
    int rounded = 0, statistics = 0;
    for (const auto& [path, values] : exact->states) {
      if (!absl::StrContains(path, "running")) continue;
      const std::vector<double>& found = result->states.at(path);
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(found[i], values[i], 2e-2 * std::max(1.0, std::abs(values[i]))) << path;
        const auto narrow = Convert<double>(Convert<BFloat16>(found[i]));
        if (narrow == found[i]) ++rounded;
        ++statistics;
      }
    }
    EXPECT_EQ(statistics, 2 * kBlocks * kChannels);
    EXPECT_LT(rounded, statistics / 2);
    const auto backend = run.backend();
    const auto compiled = CompileRun(run.graphs, plan, *backend, ranks);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    for (const Program& program : compiled->programs) {
      for (const ProgramState& state : program.states) {
        if (state.role != Role::kRunningStatistic) continue;
        EXPECT_EQ(program.value(state.updated).type.dtype, DType::kF32) << state.path;
      }
    }
  }
}

TEST(BatchNormTrainingTest, MicroBatchesThatCutAGroupAreRefused) {
  const auto result =
      Train(Normalized(8, 1), StagePlan(absl::StrCat(kSplitBatch, MicroBatches(2))), 2);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()),
              ::testing::HasSubstr(
                  "'blocks.0.batch_norm_sum' (batch_norm_sum): 2 micro-batches would cut its "
                  "groups of rows (1 of 8); use a multiple of 2 groups, of equal size, or 1 "
                  "micro-batch"));
}

}  // namespace
}  // namespace tessera
