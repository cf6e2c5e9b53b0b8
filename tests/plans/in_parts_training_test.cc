// Checks that operators that are computed in parts, because a dimension is split that they reduce,
// train as one process does: layer norms over split channels and the head by split channels, with
// micro-batches, recomputation, fewer bits, a second axis, and empty parts.
#include <string>

#include "absl/strings/str_cat.h"
#include "core/kernels/cpu/backend.h"
#include "core/plan/testing/completion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

constexpr char kModelAxis[] = "mesh { name: 'model' }";
constexpr char kTwoAxes[] = "mesh { name: 'data' size: 2 } mesh { name: 'model' }";

// The residual stream is split by channels: products make sums that are reduced to channels, and
// the norms complete their statistics.
constexpr char kChannels[] = R"text(
  compute { path: "blocks.*.ln1.layer_norm|blocks.*.ln2.layer_norm|ln_f.layer_norm"
            signature: "model: S(2), S(0), S(0) -> S(2), B, B" }
  compute { path: "loss.linear_log_sum_exp" signature: "model: S(2), S(1), B -> B, B" }
  store { path: "blocks.*.ln1.*|blocks.*.ln2.*|ln_f.*" layout: "model: S(0)" }
)text";

Plan ByChannels(const std::string& mesh, const std::string& more = "") {
  return ParsePlan(absl::StrCat("stages { ", mesh, kChannels, more, " }"));
}

TrainingRun Gpt(const GptSizes& sizes = {.heads = 2, .head_dim = 5}) {
  TrainingRun run = SmallGpt(sizes);
  run.steps = 4;
  run.check_memory = true;
  return run;
}

TEST(InPartsTrainingTest, NormsAndTheHeadBySplitChannels) {
  ExpectSame(Gpt(), ByChannels(kModelAxis), {2, 3, 4});
}

// 10 channels over 7 and 16 ranks: the last ones have none.
TEST(InPartsTrainingTest, EmptyParts) { ExpectSame(Gpt(), ByChannels(kModelAxis), {7, 16}); }

TEST(InPartsTrainingTest, BesideASplitBatch) {
  const char kBatch[] = "store { path: 'tokens|targets' layout: 'data: S(0)' }";
  ExpectSame(Gpt(), ByChannels(kTwoAxes, kBatch), {4, 6});
  ExpectSame(Gpt({.heads = 2, .head_dim = 5, .micro_batches = 2}), ByChannels(kTwoAxes, kBatch),
             {4});
}

TEST(InPartsTrainingTest, RecomputedAndInMicroBatches) {
  for (const char* fields :
       {"recompute: 'blocks.*'", "recompute: 'blocks.*.ln1'",
        "recompute: 'blocks.*.ln1.layer_norm'", "micro_batches: 2",
        "micro_batches: 4 recompute: 'blocks.*'", "logits: KEPT micro_batches: 2"}) {
    SCOPED_TRACE(fields);
    const std::string part = absl::StrCat("parts { graph: 'train' ", fields, " }");
    ExpectSame(Gpt(), ByChannels(kModelAxis, part), {2});
  }
}

// Each slice of the words has its own logits, and its own part of the gradient.
TEST(InPartsTrainingTest, SlicesOfTheHead) {
  const TrainingRun untied =
      Gpt({.heads = 2, .head_dim = 5, .vocabulary = 11, .untied_head = true});
  const char kHalves[] = "slice { path: 'head.weight' count: 2 }";
  ExpectSame(untied, ByChannels(kModelAxis, kHalves), {2, 3});
  for (const char* fields : {"micro_batches: 2 recompute: 'blocks.*'", "logits: KEPT"}) {
    SCOPED_TRACE(fields);
    const std::string part = absl::StrCat("parts { graph: 'train' ", fields, " }");
    ExpectSame(untied, ByChannels(kModelAxis, absl::StrCat(kHalves, part)), {2});
  }
  // The embedding is the head.
  ExpectSame(Gpt(), ByChannels(kModelAxis, "slice { path: 'wte.weight' count: 3 }"), {2});
  ExpectSame(OnCpu(untied), ByChannels(kModelAxis, kHalves), {2}, 1e-4);
}

TEST(InPartsTrainingTest, OnCpu) {
  ExpectSame(OnCpu(Gpt()), ByChannels(kModelAxis), {2, 3}, 1e-4);
  const char kBf16[] = "precision { parameters: BF16 }";
  ExpectSame(OnCpu(Gpt()), ByChannels(kModelAxis, kBf16), {2}, 5e-2);
}

// The caches of generation are split by rows. Some ranks have only rows that no token has reached;
// of 7 and 16 ranks some have none.
TEST(InPartsTrainingTest, DecodingWithCachesSplitByRows) {
  const char kRows[] = R"text(
    store { path: "blocks.*.attn.k_cache|blocks.*.attn.v_cache" layout: "model: S(1)" }
    parts {
      graph: "generate"
      compute { path: "blocks.*.attn.attention_decode"
                signature: "model: B, B, B, S(1), S(1), B -> B, S(1), S(1)" }
    }
  )text";
  TrainingRun run = Gpt();
  AddOtherPrograms(run);
  const Plan plan = ParsePlan(absl::StrCat("stages { ", kModelAxis, kRows, " }"));
  ExpectSame(run, plan, {2, 3, 7, 16});
  ExpectSame(OnCpu(run), plan, {2, 3}, 1e-4);
}

TEST(InPartsTrainingTest, ASignatureThatIsNoneNamesThoseInParts) {
  const char kWrong[] =
      "compute { path: 'ln_f.layer_norm' signature: 'model: S(2), B, S(0) -> S(2), B, B' }";
  const auto result =
      Train(Gpt(), ParsePlan(absl::StrCat("stages { ", kModelAxis, kWrong, " }")), 2);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()),
              ::testing::HasSubstr("S(2), S(0), S(0) -> S(2), B, B (in parts)"));
}

}  // namespace
}  // namespace tessera
