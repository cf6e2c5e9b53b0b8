// How batch norm is laid out over ranks and over micro-batches.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/micro_batches.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Records x + batch norm of x w^T, the mean of its squares, and an update of w.
Graph Normalized(int64_t rows, int64_t groups) {
  Graph graph("train");
  const Tensor x = graph.Input("x", F32({rows, 2, 3}), 0);
  const Tensor w = graph.Parameter("w", {3, 3}, Initializer::Constant(1));
  const Tensor weight = graph.Parameter("weight", {3}, Initializer::Constant(1));
  const Tensor bias = graph.Parameter("bias", {3}, Initializer::Constant(0));
  const Tensor product = Linear(x, w);
  const Tensor y = Add(x, BatchNorm(product, weight, bias, {}, {1e-5, groups}).y);
  const Tensor loss = ReduceMean(Square(y), {0, 1, 2});
  auto gradients = RecordGradients(graph, loss, {w, weight, bias});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  graph.set_phase(Phase::kUpdate);
  graph.SetState("w", Subtract(w, (*gradients)[0]));
  graph.SetState("weight", Subtract(weight, (*gradients)[1]));
  graph.SetState("bias", Subtract(bias, (*gradients)[2]));
  graph.SetOutput("loss", loss);
  EXPECT_TRUE(graph.status().ok()) << graph.status();
  return graph;
}

// Returns "operator: signature" of each of batch norm's operators, if the batch is split over
// ranks.
std::string SignaturesOn(int ranks, int64_t rows, int64_t groups) {
  std::vector<Graph> graphs;
  graphs.push_back(Normalized(rows, groups));
  const Plan plan = Completed(
      ParsePlan("stages { mesh { name: 'data' } store { path: 'x' layout: 'data: S(0)' } }"),
      graphs, ranks);
  std::string lines;
  for (const Op& op : graphs[0].ops()) {
    if (!absl::StartsWith(op.kind->name(), "batch_norm")) continue;
    for (const ComputeChoice& choice : plan.stages(0).parts(0).compute()) {
      if (choice.path() != op.path) continue;
      absl::StrAppend(&lines, op.kind->name(), ": ", choice.signature(), "\n");
    }
  }
  return lines;
}

TEST(BatchNormPlanTest, RanksWithAPartOfAGroupHavePartialSums) {
  const std::string partial =
      "batch_norm_sum: data: S(0) -> P, P\n"
      "batch_norm_squares: data: S(0), B -> P\n"
      "batch_norm: data: S(0), B, B, B, B, B -> S(0)\n"
      "batch_norm_grad_sums: data: S(0), S(0), B, B -> P, P\n"
      "batch_norm_grad: data: S(0), B, B, S(0), B, B, B, B -> S(0)\n";
  EXPECT_EQ(SignaturesOn(2, 8, 1), partial);
  EXPECT_EQ(SignaturesOn(4, 8, 2), partial);  // two ranks have each group
  EXPECT_EQ(SignaturesOn(2, 9, 3), partial);  // ranks have 5 and 4 rows
}

TEST(BatchNormPlanTest, RanksWithWholeGroupsDoNotCommunicate) {
  const auto whole = [](int64_t group_rows) {
    const std::string x = group_rows == 1 ? "S(0)" : absl::StrCat("S(0, ", group_rows, ")");
    return absl::StrCat("batch_norm_sum: data: ", x, " -> S(0), S(0)\n",      //
                        "batch_norm_squares: data: ", x, ", S(0) -> S(0)\n",  //
                        "batch_norm: data: ", x, ", S(0), S(0), B, B, S(0) -> ", x, "\n",
                        "batch_norm_grad_sums: data: ", x, ", ", x, ", S(0), S(0) -> S(0), S(0)\n",
                        "batch_norm_grad: data: ", x, ", S(0), B, ", x,
                        ", S(0), S(0), S(0), S(0) -> ", x, "\n");
  };
  EXPECT_EQ(SignaturesOn(2, 8, 2), whole(4));
  EXPECT_EQ(SignaturesOn(2, 8, 4), whole(2));
  EXPECT_EQ(SignaturesOn(3, 7, 3), whole(3));  // ranks have 3, 3 and 1 rows
  EXPECT_EQ(SignaturesOn(4, 8, 8), whole(1));
}

TEST(BatchNormPlanTest, MicroBatchesHaveWholeGroups) {
  const std::string text = Body(SplitGraph(Normalized(8, 4), 2));
  for (int k = 0; k < 2; ++k) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("%batch_norm_sum@", k,
                                             ": f32[2, 3], %batch_norm_sum"
                                             ".count@",
                                             k, ": f32[2, 1] = batch_norm_sum(%matmul@", k,
                                             ") {group_rows=2, groups=2}")));
  }
  EXPECT_THAT(text, Not(HasSubstr("concat")));
}

TEST(BatchNormPlanTest, MicroBatchesThatCutAGroupAreRefused) {
  const auto split = SplitIntoMicroBatches(Normalized(8, 2), 4);
  EXPECT_EQ(split.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(split.status().message()),
            "micro_batches: operator 'batch_norm_sum' (batch_norm_sum): 4 micro-batches would cut "
            "its groups of rows (2 of 4); use a multiple of 4 groups, of equal size, or 1 "
            "micro-batch");
}

}  // namespace
}  // namespace tessera
