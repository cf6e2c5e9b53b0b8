// Completes Plans with slices.
#include <string>
#include <vector>

#include "core/plan/complete.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/transformer.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::vector<Graph> Graphs() {
  std::vector<Graph> graphs;
  graphs.push_back(RecordTransformerTraining({}));
  graphs.push_back(RecordTransformerState(graphs[0]));
  graphs.push_back(RecordTransformerLoss({}));
  return graphs;
}

// A parameter's path names all of its slices, but a slice may also be named by itself. An operator
// that runs slice by slice is named by its own path. The completed Plan lists all slices.
TEST(CompleteSlicesTest, SlicesHaveLayoutsOfTheirOwn) {
  const Plan open = ParsePlan(R"text(stages { mesh { name: "data" }
      store { path: "tokens|targets" layout: "data: S(0)" }
      slice { path: "blocks.0.mlp.*.weight" dimension: 0 count: 2 }
      store { path: "blocks.0.mlp.fc.weight" layout: "data: S(0)" }
      store { path: "blocks.0.mlp.proj.weight[0:*]" layout: "data: S(1)" }
      compute { path: "blocks.0.mlp.fc.matmul" signature: "data: B, S(0) -> S(2)" } })text");
  const Plan plan = Completed(open, Graphs(), 2);
  EXPECT_EQ(StoreLines(plan, "blocks.0"), R"(blocks.0.mlp.fc.weight.adam_m[0:16]: data: S(0)
blocks.0.mlp.fc.weight.adam_m[16:32]: data: S(0)
blocks.0.mlp.fc.weight.adam_v[0:16]: data: S(0)
blocks.0.mlp.fc.weight.adam_v[16:32]: data: S(0)
blocks.0.mlp.fc.weight[0:16]: data: S(0)
blocks.0.mlp.fc.weight[16:32]: data: S(0)
blocks.0.mlp.proj.weight.adam_m[0:4]: data: S(1)
blocks.0.mlp.proj.weight.adam_v[0:4]: data: S(1)
blocks.0.mlp.proj.weight[0:4]: data: S(1)
)");
  EXPECT_EQ(OperatorLines(plan, 0, {"blocks.0.mlp.fc.matmul", "blocks.0.mlp.proj.matmul"}),
            R"(blocks.0.mlp.fc.matmul[0:16]: data: B, S(0) -> S(2)
blocks.0.mlp.fc.matmul[16:32]: data: B, S(0) -> S(2)
blocks.0.mlp.fc.matmul.concat: data: B
blocks.0.mlp.proj.matmul[0:4]: data: S(0), B -> S(0)
blocks.0.mlp.proj.matmul[4:8]: data: S(0), B -> S(0)
blocks.0.mlp.proj.matmul.concat: data: S(0), S(0) -> S(0)
blocks.0.mlp.proj.matmul.backward.matmul[0:4]: data: S(0), B -> S(0)
blocks.0.mlp.proj.matmul.backward.matmul[4:8]: data: S(0), B -> S(0)
blocks.0.mlp.proj.matmul.backward.matmul_1[0:4]: data: S(0), S(0) -> P
blocks.0.mlp.proj.matmul.backward.matmul_1[4:8]: data: S(0), S(0) -> P
blocks.0.mlp.fc.matmul.backward.matmul[0:16]: data: S(2), S(0) -> P
blocks.0.mlp.fc.matmul.backward.matmul[16:32]: data: S(2), S(0) -> P
blocks.0.mlp.fc.matmul.backward.matmul_1[0:16]: data: S(2), B -> S(0)
blocks.0.mlp.fc.matmul.backward.matmul_1[16:32]: data: S(2), B -> S(0)
)");
  ASSERT_EQ(plan.stages(0).slice_size(), 2);
  EXPECT_EQ(plan.stages(0).slice(0).path(),
            "blocks.0.mlp.fc.weight|blocks.0.mlp.fc.weight.adam_m|blocks.0.mlp.fc.weight.adam_v");
  const Plan again = Completed(plan, Graphs(), 2);
  EXPECT_EQ(again.SerializeAsString(), plan.SerializeAsString());
}

std::string ErrorOf(const std::string& choices) {
  const Plan plan = ParsePlan("stages { mesh { name: 'data' } " + choices + " }");
  const auto completed = CompletePlan(plan, Graphs(), 2);
  EXPECT_EQ(completed.status().code(), absl::StatusCode::kInvalidArgument) << choices;
  return std::string(completed.status().message());
}

TEST(CompleteSlicesTest, ChoicesThatDoNotFitAreRefused) {
  const std::string sliced = "slice { path: 'wte.weight' count: 2 } ";
  EXPECT_EQ(ErrorOf(sliced + "store { path: 'wte.weight' layout: 'data: S(0)' } "
                             "store { path: 'wte.weight[0:*]' layout: 'data: B' }"),
            "the Plan's store 'wte.weight[0:*]': 'wte.weight[0:6]' is named by store 'wte.weight' "
            "too; one of them must go");
  EXPECT_EQ(ErrorOf(sliced + "store { path: 'wte.weight[0:7]' layout: 'data: S(0)' }"),
            "the Plan's store 'wte.weight[0:7]': no state or input of the graphs 'train', "
            "'initialise', 'evaluate' matches; did you mean 'wte.weight[0:6]'?");
  EXPECT_EQ(
      ErrorOf(sliced + "compute { path: 'embed.embedding' signature: 'data: S(0) -> P' }"),
      "the Plan gives operator 'embed.embedding[0:6]' the signature 'S(0) -> P' along axis "
      "'data', which embedding does not have in graph 'train'; it has B; B, S(0) -> S(0); B, S(1) "
      "-> S(1); S(1), B -> S(2); P, B -> P; S(0), B -> P");
  EXPECT_EQ(ErrorOf("slice { path: 'blocks.*.ln1.weight' count: 2 }"),
            "the Plan's slice 'blocks.0.ln1.weight': operator 'blocks.0.ln1.layer_norm' "
            "(layer_norm) has no signature that takes 'blocks.0.ln1.weight' as S(0); it has B; "
            "S(0), B, B -> S(0), S(0), S(0); S(1), B, B -> S(1), S(1), S(1)");
}

}  // namespace
}  // namespace tessera
