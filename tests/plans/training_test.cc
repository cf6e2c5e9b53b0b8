// Checks that the Plans of docs/plans train GPT on ranks as one process does.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "strategies/conformance/rank_training.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

// Returns the Plan with micro-batches, and with recomputation of blocks.
Plan WithPart(const std::string& file, int micro_batches, bool recompute) {
  Plan plan = ReadPlanFile(file);
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph("train");
  part.set_micro_batches(micro_batches);
  for (int i = 0; recompute && i < 2; ++i) part.add_recompute("blocks." + std::to_string(i));
  return plan;
}

TEST(TrainingTest, DataParallelGpt) { ExpectSame(SmallGpt({}), kDataParallel, {1, 2, 4}); }

TEST(TrainingTest, DataParallelGptWithClipping) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kDataParallel, {2});
}

TEST(TrainingTest, DataParallelGptWithGatheredEmbedding) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kDataParallelTied, {1, 2, 4});
  ExpectSame(SmallGpt({.clip_norm = 0.5}), WithPart(kDataParallelTied, 2, /*recompute=*/true), {2});
  ExpectSame(SmallGpt(OddSizes()), kDataParallelTied, {2, 3, 8});
}

TEST(TrainingTest, FullyShardedGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kFullySharded, {1, 2, 3, 4});
}

TEST(TrainingTest, FullyShardedGptWithAdamw) {
  ExpectSame(SmallGpt({.clip_norm = 0.5, .optimizer = "adamw"}), kFullySharded, {2});
}

TEST(TrainingTest, HybridShardedGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kHybridSharded, {4, 8});
}

TEST(TrainingTest, TensorParallelGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kTensorParallel, {2, 4});
}

TEST(TrainingTest, DataAndTensorParallelGpt) {
  ExpectSame(SmallGpt({.clip_norm = 0.5}), kDataTensorParallel, {4, 8});
}

// The head's weight is a parameter of its own, which no Plan names.
TEST(TrainingTest, AllPlansWithAnUntiedHead) {
  const TrainingRun run = SmallGpt({.clip_norm = 0.5, .untied_head = true});
  for (const char* plan : kAllPlans) {
    SCOPED_TRACE(plan);
    ExpectSame(run, plan, {4});
  }
  ExpectSame(run, WithPart(kFullySharded, 2, /*recompute=*/true), {2});
  ExpectSame(run, WithPart(kTensorParallel, 2, /*recompute=*/true), {2});
}

TEST(TrainingTest, AllPlansOn8Ranks) {
  TrainingRun run = SmallGpt({.heads = 8, .head_dim = 1, .clip_norm = 0.5});
  for (const char* plan : kAllPlans) {
    SCOPED_TRACE(plan);
    ExpectSame(run, plan, {8});
  }
  run = SmallGpt(OddSizes());
  run.steps = 5;
  for (const char* plan : {kHybridSharded, kTensorParallel, kDataTensorParallel}) {
    SCOPED_TRACE(plan);
    ExpectSame(run, plan, {8});
  }
}

TEST(TrainingTest, AllPlansWithMicroBatchesAndRecomputation) {
  const TrainingRun run = SmallGpt({.clip_norm = 0.5});
  for (const char* plan : {kDataParallel, kFullySharded, kTensorParallel}) {
    SCOPED_TRACE(plan);
    ExpectSame(run, WithPart(plan, 2, /*recompute=*/false), {2});
    ExpectSame(run, WithPart(plan, 2, /*recompute=*/true), {4});
  }
  for (const char* plan : {kHybridSharded, kDataTensorParallel}) {
    SCOPED_TRACE(plan);
    ExpectSame(run, WithPart(plan, 2, /*recompute=*/true), {4});
  }
}

// Returns the Plan with gradients reduced after each micro-batch; each rank accumulates its shards.
Plan ReducedEachMicroBatch(Plan plan) {
  for (GroupChoice& group : *plan.mutable_stages(0)->mutable_group()) {
    group.set_reduce(GroupChoice::EACH_MICRO_BATCH);
  }
  return plan;
}

TEST(TrainingTest, ReductionsAfterEachMicroBatch) {
  TrainingRun run = SmallGpt({.clip_norm = 0.5});
  ExpectSame(run, ReducedEachMicroBatch(WithPart(kFullySharded, 4, /*recompute=*/false)), {2, 4});
  ExpectSame(run, ReducedEachMicroBatch(WithPart(kHybridSharded, 2, /*recompute=*/true)), {4});
  run = SmallGpt(OddSizes());
  run.steps = 5;
  const Plan plan = WithPart(kFullySharded, 5, /*recompute=*/false);
  ExpectSame(run, ReducedEachMicroBatch(plan), {1, 3});
}

// A group that is flat over two axes. In the order of the mesh they are gathered together; else
// over one after the other, and what is gathered over the last one may be kept.
constexpr char kFlatOverTwoAxes[] = R"plan(
  stages {
    mesh { name: "host" size: 2 }
    mesh { name: "core" }
    store { path: "tokens|targets" layout: "host: S(0), core: S(0)" }
    group { path: "blocks.*" each: true $0 }
    group { path: "wte|wpe|ln_f" $1 gather: ONCE }
    pass { prefetch_gathers { distance: 1 } }
    pass { limit_gathers { in_flight: 2 } }
  })plan";

TEST(TrainingTest, GroupsThatAreFlatOverTwoAxes) {
  const char kApart[] = "over: 'core' over: 'host' ", kTogether[] = "over: 'host' over: 'core' ";
  for (const auto& [axes, options] : std::vector<std::pair<const char*, const char*>>{
           {kApart, "gather: EACH_PHASE"},
           {kApart, "gather: ONCE"},
           {kApart, "gather: EACH_PHASE again_over: 'core'"},
           {kApart, "gather: EACH_PHASE again_over: 'core' reduce: EACH_MICRO_BATCH"},
           {kApart, "split_at_rows: true"},
           {kApart, "split_at_multiples_of: 7"},
           {kTogether, "gather: EACH_PHASE"},
           {kTogether, "gather: ONCE"},
           {kTogether, "gather: EACH_PHASE again_over: 'host'"}}) {
    SCOPED_TRACE(absl::StrCat(axes, options));
    Plan plan;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::Substitute(kFlatOverTwoAxes, absl::StrCat(axes, options), axes), &plan));
    PlanPart& part = *plan.mutable_stages(0)->add_parts();
    part.set_graph("train");
    part.set_micro_batches(2);
    ExpectSame(SmallGpt({.clip_norm = 0.5}), plan, {2, 4});
    TrainingRun odd = SmallGpt(OddSizes());
    odd.steps = 5;
    part.set_micro_batches(1);
    ExpectSame(odd, plan, {4, 6});
  }
}

TEST(TrainingTest, AllPlansOnTheCpuBackend) {
  for (const GptSizes& sizes : {GptSizes{.clip_norm = 0.5}, OddSizes()}) {
    TrainingRun run = SmallGpt(sizes);
    run.backend = [] { return MakeCpuBackend(1); };
    for (const char* plan : kAllPlans) {
      SCOPED_TRACE(plan);
      ExpectSame(run, plan, {4}, 1e-5);
    }
  }
}

TEST(TrainingTest, DataParallelGptOfOddSizes) {
  ExpectSame(SmallGpt(OddSizes()), kDataParallel, {2, 3, 4, 8});
}

TEST(TrainingTest, FullyShardedGptOfOddSizes) {
  ExpectSame(SmallGpt(OddSizes()), kFullySharded, {2, 3, 8});
}

TEST(TrainingTest, TensorParallelGptOfOddSizes) {
  ExpectSame(SmallGpt(OddSizes()), kTensorParallel, {2, 4});
}

TEST(TrainingTest, DataAndTensorParallelGptOfOddSizes) {
  ExpectSame(SmallGpt(OddSizes()), kDataTensorParallel, {4});
}

// Both sum gradients in the same order, and updates are elementwise.
TEST(TrainingTest, FullyShardedGivesTheBitsOfDataParallel) {
  const TrainingRun run = SmallGpt({});
  for (const int ranks : {2, 4}) {
    const auto data = Train(run, ReadPlanFile(kDataParallel), ranks);
    const auto sharded = Train(run, ReadPlanFile(kFullySharded), ranks);
    ASSERT_TRUE(data.ok()) << data.status();
    ASSERT_TRUE(sharded.ok()) << sharded.status();
    for (const auto& [path, values] : data->states) {
      EXPECT_EQ(values, sharded->states.at(path)) << ranks << " ranks, " << path;
    }
  }
}

// Returns the states after a run on 2 ranks under a Plan of docs/plans, with its passes and the
// time of its gathers replaced by the arguments.
auto StatesWith(const std::string& file, absl::string_view passes,
                GroupChoice::Gather gather = GroupChoice::GATHER_UNSET) {
  Plan plan = ReadPlanFile(file);
  Stage& stage = *plan.mutable_stages(0);
  for (GroupChoice& group : *stage.mutable_group()) group.set_gather(gather);
  stage.clear_pass();
  Stage added;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(std::string(passes), &added));
  stage.MergeFrom(added);
  TrainingRun run = SmallGpt({.clip_norm = 0.5});
  run.steps = 3;
  const auto result = Train(run, plan, 2);
  EXPECT_TRUE(result.ok()) << passes << ": " << result.status();
  return result.ok() ? result->states : decltype(result->states)();
}

TEST(TrainingTest, BucketsChangeNoBits) {
  const auto states = StatesWith(kDataParallel, "");
  EXPECT_GT(states.size(), 4u);
  for (const char* pass :
       {"pass { bucket_gradients { cap_mib: 1e-6 } }", "pass { bucket_gradients {} }",
        "pass { bucket_gradients { cap_mib: 0.001953125 first_mib: 0.00048828125 } }"}) {
    EXPECT_EQ(StatesWith(kDataParallel, pass), states) << pass;
  }
}

TEST(TrainingTest, WhenParametersAreGatheredChangesNoBits) {
  const auto states = StatesWith(kFullySharded, "");
  EXPECT_GT(states.size(), 4u);
  for (const char* passes :
       {"pass { prefetch_gathers { distance: 3 } }", "pass { limit_gathers { in_flight: 1 } }",
        "pass { prefetch_gathers {} } pass { limit_gathers {} }",
        "pass { prefetch_gathers { distance: 5 } } "
        "pass { limit_gathers { in_flight: 3 } }"}) {
    EXPECT_EQ(StatesWith(kFullySharded, passes), states) << passes;
  }
  EXPECT_EQ(StatesWith(kFullySharded, "", GroupChoice::ONCE), states);
  EXPECT_EQ(StatesWith(kFullySharded, "pass { prefetch_gathers {} }", GroupChoice::ONCE), states);
}

}  // namespace
}  // namespace tessera
