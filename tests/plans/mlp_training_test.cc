// Checks that Plans for the MLP train it on ranks as one process does.
#include <string>

#include "core/plan/testing/completion.h"
#include "gtest/gtest.h"
#include "tests/plans/small_runs.h"

namespace tessera {
namespace {

// Returns a Plan with a mesh and these choices.
Plan PlanOf(const std::string& mesh, const std::string& choices) {
  return ParsePlan("stages { " + mesh + choices + " }");
}

constexpr char kSplitBatch[] = "store { path: 'tokens|targets' layout: 'data: S(0)' }";

// Returns choices that make each layer a group, split over `axis`.
std::string Groups(const std::string& axis) {
  return "group { path: 'layers.*' each: true over: '" + axis +
         "' } group { path: 'embed|head' over: '" + axis +
         "' } pass { prefetch_gathers {} } pass { limit_gathers {} }";
}

// Splits the first layer by its units, the second one by its inputs, and the vocabulary.
constexpr char kTensorParallelMlp[] = R"text(
  store { path: "layers.0.*" layout: "model: S(0)" }
  compute { path: "layers.0.matmul" signature: "model: B, S(0) -> S(1)" }
  store { path: "layers.1.weight" layout: "model: S(1)" }
  compute { path: "layers.1.matmul" signature: "model: S(1), S(1) -> P" }
  store { path: "head.weight" layout: "model: S(0)" }
  compute { path: "loss.linear_log_sum_exp" signature: "model: B, S(0), B -> P(lse), P" }
)text";

TEST(MlpTrainingTest, DataParallel) { ExpectSame(SmallMlp(), kDataParallel, {2, 4, 8}); }

TEST(MlpTrainingTest, FullySharded) {
  const Plan plan = PlanOf(R"text(mesh { name: "data" })text", kSplitBatch + Groups("data"));
  ExpectSame(SmallMlp(), plan, {1, 2, 3, 4, 8});
  ExpectSame(SmallMlp(/*batch=*/5), plan, {2, 3, 8});
}

TEST(MlpTrainingTest, HybridSharded) {
  const Plan plan = PlanOf(R"text(mesh { name: "replica" size: 2 } mesh { name: "shard" }
                store { path: "tokens|targets" layout: "replica: S(0), shard: S(0)" })text",
                           Groups("shard"));
  ExpectSame(SmallMlp(), plan, {4, 8});
}

TEST(MlpTrainingTest, TensorParallel) {
  const Plan plan = PlanOf(R"text(mesh { name: "model" })text", kTensorParallelMlp);
  ExpectSame(SmallMlp(), plan, {1, 2, 3, 4, 8});
}

TEST(MlpTrainingTest, DataAndTensorParallel) {
  const Plan plan = PlanOf(R"text(mesh { name: "data" size: 2 } mesh { name: "model" })text",
                           std::string(kSplitBatch) + kTensorParallelMlp);
  ExpectSame(SmallMlp(), plan, {4, 8});
  ExpectSame(SmallMlp(/*batch=*/5), plan, {4});
}

}  // namespace
}  // namespace tessera
