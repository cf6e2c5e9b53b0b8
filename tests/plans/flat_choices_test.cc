// Checks choices that meet flat groups: for single operators of their members, for members that are
// split over other axes, and for passes over their gradients.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/model/model.h"
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
  for (const char* layout : {"a: flat, b: flat", "b: flat, a: flat"}) {
    const std::string group =
        "group { path: 'blocks.*' each: true layout: '" + std::string(layout) + "' }";
    ExpectRight("operator { path: 'update.sum_squares_6' signature: 'a: B' }" + group);
    ExpectRight("operator { path: 'update.sum_squares_4' signature: 'b: S(0) -> P' }" + group +
                kSplitBatch);
    ExpectRight("operator { path: 'update.sum_squares*' signature: 'a: B; b: S(0) -> P' }" + group);
  }
}

TEST(FlatChoicesTest, AnUpdateOfGatheredMembers) {
  for (const char* layout : {"a: flat", "b: flat", "a: flat, b: flat"}) {
    const std::string group =
        "group { path: 'blocks.0|ln_f' layout: '" + std::string(layout) + "' }" + kSplitBatch;
    ExpectRight("operator { path: 'ln_f.bias.sgd_update' signature: 'a: B' }" + group);
    ExpectRight("operator { path: 'ln_f.*.adamw_update' signature: 'b: B' }" + group, "adamw");
    ExpectRight(
        "operator { path: 'blocks.0.*.*.*.adamw_update' signature: "
        "'a: S(0), S(0), S(0), S(0), B, B, B, B -> S(0), S(0), S(0)' }" +
            group,
        "adamw");
    ExpectRight(
        "operator { path: 'blocks.0.mlp.fc.bias.adamw_update' signature: 'a: B; b: B' }" + group,
        "adamw", 2);
  }
}

TEST(FlatChoicesTest, AnUpdateOfAMemberThatIsSplitUnevenly) {
  ExpectRight(
      "store { path: 'blocks.*.mlp.fc.*' layout: 'b: S(0)' }"
      "store { path: 'blocks.*.mlp.proj.weight' layout: 'b: S(1)' }"
      "operator { path: 'blocks.0.mlp.fc.weight.adamw_update' signature: 'a: B' }"
      "operator { path: 'blocks.1.mlp.proj.weight.adamw_update' signature: 'a: B' }"
      "group { path: 'blocks.*' each: true layout: 'a: flat' }",
      "adamw");
}

TEST(FlatChoicesTest, InitialValuesAndGradientsOfMembers) {
  ExpectRight(
      "operator { path: 'blocks.*.mlp.fc.weight.random_normal' signature: 'a: B' }"
      "group { path: 'blocks.*' each: true layout: 'a: flat, b: flat' }");
  ExpectRight(
      "operator { path: 'embed.embedding.backward.add' signature: 'a: B' }"
      "group { path: 'wte|wpe' layout: 'a: flat' }" +
      std::string(kSplitBatch));
}

TEST(FlatChoicesTest, MembersThatAnotherAxisSplitsWithPartialGradients) {
  ExpectRight(
      "store { path: 'tokens|targets' layout: 'b: S(0)' }"
      "store { path: 'blocks.0.mlp.proj.weight' layout: 'b: S(0)' }"
      "group { path: 'blocks.0.mlp' layout: 'a: flat' }");
  ExpectRight(
      "store { path: 'tokens|targets' layout: 'a: S(0), b: S(0)' }"
      "store { path: 'blocks.*.mlp.*.weight' layout: 'b: S(1)' }"
      "group { path: 'blocks.*' each: true layout: 'a: flat' reduce: 'each micro-batch' }",
      "sgd", 2);
}

TEST(FlatChoicesTest, GradientsOfEachMicroBatchWithTensorParallelism) {
  ExpectRight(
      "operator { path: 'blocks.*.mlp.proj.matmul' signature: 'a: S(2), S(1) -> P' }"
      "group { path: 'blocks.*' each: true layout: 'b: flat' reduce: 'each micro-batch' }",
      "sgd", 4);
  ExpectRight(
      "operator { path: 'blocks.*.mlp.fc.matmul' signature: 'a: B, S(0) -> S(2)' }"
      "operator { path: 'blocks.*.mlp.proj.matmul' signature: 'a: S(2), S(1) -> P' }"
      "store { path: 'blocks.*.mlp.fc.*' layout: 'a: S(0)' }"
      "group { path: 'blocks.*' each: true layout: 'b: flat' reduce: 'each micro-batch' }",
      "adamw", 2);
}

TEST(FlatChoicesTest, BucketsBesideGroups) {
  const std::string buckets = "pass { name: 'bucket_gradients' cap: '4MiB' first: '1KiB' }";
  ExpectRight(
      "store { path: 'tokens|targets' layout: 'a: S(0), b: S(0)' }"
      "group { path: 'blocks.*' each: true layout: 'b: flat' }" +
      buckets);
  Plan plan = ReadPlanFile(kHybridSharded);
  *plan.mutable_stages(0)->add_pass() = OnFour(buckets).stages(0).pass(0);
  ExpectSame(SmallGpt({}), plan, {4});
}

// The reference backend computes in double, so the casts round nothing.
TEST(FlatChoicesTest, CastsOfMembers) {
  for (const char* signature : {"a: S(0) -> S(0)", "b: B", "a: S(0) -> S(0); b: S(0) -> S(0)"}) {
    ExpectRight(
        "operator { path: 'ln_f.weight.bf16|blocks.0.mlp.fc.*.bf16' signature: '" +
        std::string(signature) +
        "' } group { path: 'ln_f|blocks.0' layout: 'b: flat' } precision { parameters: 'bf16' }");
  }
}

// A member may hold its slices, gradients and casts in other layouts than one axis of a group
// gives: three flat axes of two ranks each.
TEST(FlatChoicesTest, ThreeFlatAxes) {
  const std::string mesh =
      "mesh { name: 'a' size: 2 } mesh { name: 'b' size: 2 } mesh { name: 'c' size: 2 } ";
  const char* const kGroups[] = {
      "group { path: 'blocks.*' each: true layout: 'a: flat, b: flat, c: flat' ",
      "group { path: 'blocks.*|wte|ln_f' layout: 'c: flat, a: flat, b: flat' ",
  };
  const char* const kSlices[] = {"",
                                 "slice { path: 'blocks.*.mlp.fc.weight' dimension: 0 count: 3 } "
                                 "slice { path: 'wte.weight' dimension: 0 count: 2 } "};
  for (const char* group : kGroups) {
    for (const char* options :
         {"gather: 'once' }", "gather: 'each phase' reduce: 'each micro-batch' }",
          "gather: 'each phase over a' reduce: 'each micro-batch' }"}) {
      for (const char* slices : kSlices) {
        for (const char* precision : {"", "precision { parameters: 'bf16' } "}) {
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
class ScaledModel final : public Model {
 public:
  int64_t vocabulary() const override { return kVocabulary; }
  int64_t max_sequence() const override { return 64; }
  MeanLoss RecordLoss(Graph& graph, int64_t batch, int64_t sequence,
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
                                 "group { path: '*' layout: 'a: flat, b: flat' } "
                                 "operator { path: 'update.sum_squares*' signature: "
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
        for (const char* group : {"group { path: 'scale' layout: 'a: flat' }",
                                  "group { path: 'scale|gain' layout: 'b: flat, a: flat' }",
                                  "group { path: '*' layout: 'a: flat, b: flat' }",
                                  "group { path: '*' layout: 'a: flat' reduce: 'each micro-batch' }"
                                  "precision { parameters: 'bf16' }"}) {
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
