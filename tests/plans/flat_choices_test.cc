// Checks choices that meet flat groups: for single operators of their members, for members that are
// split over other axes, and for passes over their gradients.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/model/language_model.h"
#include "core/ops/ops.h"
#include "core/plan/testing/completion.h"
#include "gtest/gtest.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

// Returns a Plan on axes `a` and `b` of two ranks each.
Plan OnFour(const std::string& choices) {
  return ParsePlan("stages { mesh { name: 'a' size: 2 } mesh { name: 'b' size: 2 } " + choices +
                   " }");
}

// Trains GPTs of even and odd sizes on four ranks, with memory checked.
void ExpectRight(const std::string& choices, const std::string& optimizer = "sgd",
                 int micro_batches = 1) {
  SCOPED_TRACE(choices);
  GptSizes odd = OddSizes();
  GptSizes even = {.clip_norm = 0.1};
  for (GptSizes* const sizes : {&even, &odd}) {
    sizes->optimizer = optimizer;
    sizes->micro_batches = micro_batches;
    if (micro_batches > 1) sizes->batch = 2 * micro_batches;
    TrainingRun run = SmallGpt(*sizes);
    run.steps = 3;
    run.check_memory = true;
    Plan plan = OnFour(choices);
    if (micro_batches > 1) {
      PlanPart& part = *plan.mutable_stages(0)->add_parts();
      part.set_graph("train");
      part.set_micro_batches(micro_batches);
    }
    ExpectSame(run, plan, {4});
  }
}

constexpr char kSplitBatch[] = "store { path: 'tokens|targets' layout: 'a: S(0)' }";

TEST(FlatChoicesTest, ANormAlongOneOfTwoFlatAxes) {
  for (const char* over : {"over: 'a' over: 'b'", "over: 'b' over: 'a'"}) {
    const std::string group = "group { path: 'blocks.*' each: true " + std::string(over) + " }";
    ExpectRight("compute { path: 'update.sum_squares_6' signature: 'a: B' }" + group);
    ExpectRight("compute { path: 'update.sum_squares_4' signature: 'b: S(0) -> P' }" + group +
                kSplitBatch);
    ExpectRight("compute { path: 'update.sum_squares*' signature: 'a: B; b: S(0) -> P' }" + group);
  }
}

TEST(FlatChoicesTest, AnUpdateOfGatheredMembers) {
  for (const char* over : {"over: 'a'", "over: 'b'", "over: 'a' over: 'b'"}) {
    const std::string group =
        "group { path: 'blocks.0|ln_f' " + std::string(over) + " }" + kSplitBatch;
    ExpectRight("compute { path: 'ln_f.bias.sgd_update' signature: 'a: B' }" + group);
    ExpectRight("compute { path: 'ln_f.*.adamw_update' signature: 'b: B' }" + group, "adamw");
    ExpectRight(
        "compute { path: 'blocks.0.*.*.*.adamw_update' signature: "
        "'a: S(0), S(0), S(0), S(0), B, B, B, B -> S(0), S(0), S(0)' }" +
            group,
        "adamw");
    ExpectRight(
        "compute { path: 'blocks.0.mlp.fc.bias.adamw_update' signature: 'a: B; b: B' }" + group,
        "adamw", 2);
  }
}

TEST(FlatChoicesTest, AnUpdateOfAMemberThatIsSplitUnevenly) {
  ExpectRight(
      "store { path: 'blocks.*.mlp.fc.*' layout: 'b: S(0)' }"
      "store { path: 'blocks.*.mlp.proj.weight' layout: 'b: S(1)' }"
      "compute { path: 'blocks.0.mlp.fc.weight.adamw_update' signature: 'a: B' }"
      "compute { path: 'blocks.1.mlp.proj.weight.adamw_update' signature: 'a: B' }"
      "group { path: 'blocks.*' each: true over: 'a' }",
      "adamw");
}

TEST(FlatChoicesTest, InitialValuesAndGradientsOfMembers) {
  ExpectRight(
      "compute { path: 'blocks.*.mlp.fc.weight.random_normal' signature: 'a: B' }"
      "group { path: 'blocks.*' each: true over: 'a' over: 'b' }");
  ExpectRight(
      "compute { path: 'embed.embedding.backward.add' signature: 'a: B' }"
      "group { path: 'wte|wpe' over: 'a' }" +
      std::string(kSplitBatch));
}

TEST(FlatChoicesTest, MembersThatAnotherAxisSplitsWithPartialGradients) {
  ExpectRight(
      "store { path: 'tokens|targets' layout: 'b: S(0)' }"
      "store { path: 'blocks.0.mlp.proj.weight' layout: 'b: S(0)' }"
      "group { path: 'blocks.0.mlp' over: 'a' }");
  ExpectRight(
      "store { path: 'tokens|targets' layout: 'a: S(0), b: S(0)' }"
      "store { path: 'blocks.*.mlp.*.weight' layout: 'b: S(1)' }"
      "group { path: 'blocks.*' each: true over: 'a' reduce: EACH_MICRO_BATCH }",
      "sgd", 2);
}

TEST(FlatChoicesTest, GradientsOfEachMicroBatchWithTensorParallelism) {
  ExpectRight(
      "compute { path: 'blocks.*.mlp.proj.matmul' signature: 'a: S(2), S(1) -> P' }"
      "group { path: 'blocks.*' each: true over: 'b' reduce: EACH_MICRO_BATCH }",
      "sgd", 4);
  ExpectRight(
      "compute { path: 'blocks.*.mlp.fc.matmul' signature: 'a: B, S(0) -> S(2)' }"
      "compute { path: 'blocks.*.mlp.proj.matmul' signature: 'a: S(2), S(1) -> P' }"
      "store { path: 'blocks.*.mlp.fc.*' layout: 'a: S(0)' }"
      "group { path: 'blocks.*' each: true over: 'b' reduce: EACH_MICRO_BATCH }",
      "adamw", 2);
}

TEST(FlatChoicesTest, BucketsBesideGroups) {
  const std::string buckets = "pass { bucket_gradients { cap_mib: 4 first_mib: 0.0009765625 } }";
  ExpectRight(
      "store { path: 'tokens|targets' layout: 'a: S(0), b: S(0)' }"
      "group { path: 'blocks.*' each: true over: 'b' }" +
      buckets);
  Plan plan = ReadPlanFile(kHybridSharded);
  *plan.mutable_stages(0)->add_pass() = OnFour(buckets).stages(0).pass(0);
  ExpectSame(SmallGpt({}), plan, {4});
}

// The reference backend computes in double, so the casts round nothing.
TEST(FlatChoicesTest, CastsOfMembers) {
  for (const char* signature : {"a: S(0) -> S(0)", "b: B", "a: S(0) -> S(0); b: S(0) -> S(0)"}) {
    ExpectRight("compute { path: 'ln_f.weight.bf16|blocks.0.mlp.fc.*.bf16' signature: '" +
                std::string(signature) +
                "' } group { path: 'ln_f|blocks.0' over: 'b' } precision { parameters: BF16 }");
  }
}

// A member may hold its slices, gradients and casts in other layouts than one axis of a group
// gives: three flat axes of two ranks each.
TEST(FlatChoicesTest, ThreeFlatAxes) {
  const std::string mesh =
      "mesh { name: 'a' size: 2 } mesh { name: 'b' size: 2 } mesh { name: 'c' size: 2 } ";
  const char* const kGroups[] = {
      "group { path: 'blocks.*' each: true over: 'a' over: 'b' over: 'c' ",
      "group { path: 'blocks.*|wte|ln_f' over: 'c' over: 'a' over: 'b' ",
  };
  const char* const kSlices[] = {"",
                                 "slice { path: 'blocks.*.mlp.fc.weight' dimension: 0 count: 3 } "
                                 "slice { path: 'wte.weight' dimension: 0 count: 2 } "};
  for (const char* group : kGroups) {
    for (const char* options : {"gather: ONCE }", "gather: EACH_PHASE reduce: EACH_MICRO_BATCH }",
                                "gather: EACH_PHASE again_over: 'a' reduce: EACH_MICRO_BATCH }"}) {
      for (const char* slices : kSlices) {
        for (const char* precision : {"", "precision { parameters: BF16 } "}) {
          const std::string choices =
              absl::StrCat(group, options, slices, precision,
                           "store { path: 'tokens|targets' layout: 'a: S(0), c: S(0)' }");
          SCOPED_TRACE(choices);
          GptSizes sizes = OddSizes();
          sizes.optimizer = "adamw";
          sizes.batch = 6;
          sizes.micro_batches = 2;
          TrainingRun run = SmallGpt(sizes);
          run.steps = 2;
          run.check_memory = true;
          ExpectSame(run,
                     ParsePlan(absl::StrCat("stages { ", mesh, choices,
                                            " parts { graph: 'train' micro_batches: 2 } }")),
                     {8});
        }
      }
    }
  }
}

// Predicts each target from the token before it, with parameters that have no dimensions.
class ScaledModel final : public LanguageModel {
 public:
  int64_t vocabulary() const override { return kVocabulary; }
  int64_t max_sequence() const override { return 64; }
  RecordedLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
                          bool /*training*/) const override {
    const TensorType type = {DType::kI32, {batch, sequence}};
    const Tensor tokens = graph.Input("tokens", type, 0);
    const Tensor targets = graph.Input("targets", type, 0);
    const Initializer initial = Initializer::Normal(0, 0.5);
    const Tensor table = graph.Parameter("table", {kVocabulary, 6}, initial);
    Tensor x = Embedding(table, tokens);
    for (const char* name : {"scale", "gain", "loss_scale", "norm_scale"})
      x = Multiply(x, graph.Parameter(name, {}, initial));
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
  static constexpr int64_t kVocabulary = 23;
};

// Returns the training of a model that has a parameter without dimensions.
TrainingRun ScaledTraining(const GptSizes& sizes) {
  TrainingRun run = RecordTraining(std::make_shared<ScaledModel>(), SmallGpt(sizes).config);
  run.steps = 3;
  run.check_memory = true;
  return run;
}

// Regression: all scalars of the clipping took the place of the member without dimensions in its
// group.
TEST(FlatChoicesTest, AScalarThatIsComputedFromAMemberIsNone) {
  ExpectSame(ScaledTraining({.clip_norm = 0.1}),
             OnFour(absl::StrCat(kSplitBatch,
                                 "group { path: '*' over: 'a' over: 'b' } "
                                 "compute { path: 'update.sum_squares*' signature: "
                                 "'a: B' }")),
             {4});
}

// Regression: with clipping, the sum of squares of a gradient [] counted as elementwise.
TEST(FlatChoicesTest, MembersWithoutDimensions) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    for (const double clip_norm : {0.0, 0.1}) {
      for (const int micro_batches : {1, 2}) {
        const TrainingRun run = ScaledTraining(
            {.clip_norm = clip_norm, .optimizer = optimizer, .micro_batches = micro_batches});
        for (const char* group : {"group { path: 'scale' over: 'a' }",
                                  "group { path: 'scale|gain' over: 'b' over: 'a' }",
                                  "group { path: '*' over: 'a' over: 'b' }",
                                  "group { path: '*' over: 'a' reduce: EACH_MICRO_BATCH }"
                                  "precision { parameters: BF16 }"}) {
          SCOPED_TRACE(absl::StrCat(optimizer, " ", clip_norm, " ", micro_batches, group));
          ExpectSame(
              run,
              OnFour(std::string(kSplitBatch) + group +
                     absl::StrCat("parts { graph: 'train' micro_batches: ", micro_batches, " }")),
              {4});
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
