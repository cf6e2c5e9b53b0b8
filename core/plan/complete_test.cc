#include "core/plan/complete.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/layout/mesh.h"
#include "core/ops/ops.h"
#include "core/plan/layouts/axis_use.h"
#include "core/plan/testing/completion.h"
#include "core/plan/testing/transformer.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

constexpr char kDataParallel[] = "docs/plans/data_parallel.textproto";
constexpr char kFullySharded[] = "docs/plans/fully_sharded.textproto";
constexpr char kHybridSharded[] = "docs/plans/hybrid_sharded.textproto";
constexpr char kZero1[] = "docs/plans/zero1.textproto";
constexpr char kTensorParallel[] = "docs/plans/tensor_parallel.textproto";
constexpr char kDataTensorParallel[] = "docs/plans/data_tensor_parallel.textproto";

std::vector<Graph> Graphs(const TransformerSizes& sizes = {}) {
  std::vector<Graph> graphs;
  graphs.push_back(RecordTransformerTraining(sizes));
  graphs.push_back(RecordTransformerState(graphs[0]));
  graphs.push_back(RecordTransformerLoss(sizes));
  return graphs;
}

Plan Complete(const char* file, int ranks) {
  return Completed(ReadPlanFile(file), Graphs(), ranks);
}

// Returns the layouts along `axis` in which an operator of the first Graph computes its outputs.
std::vector<std::string> OutputsOf(const Plan& plan, const Graph& graph, OpId op, int axis) {
  auto mesh = Mesh::Create({{plan.stages(0).mesh(0).name(), 2}, {"other", 2}});
  if (plan.stages(0).mesh_size() > 1) {
    mesh = Mesh::Create({{plan.stages(0).mesh(0).name(), 2}, {plan.stages(0).mesh(1).name(), 2}});
  }
  const auto uses =
      ParseAxisUses(plan.stages(0).parts(0).compute(op.index()).signature(), mesh.value());
  EXPECT_TRUE(uses.ok()) << uses.status();
  const AxisUse& use = *(*uses)[axis];
  std::vector<std::string> outputs(graph.op(op).outputs.size(), "B");
  for (size_t i = 0; i < use.signature.outputs.size(); ++i) {
    outputs[i] = use.signature.outputs[i].ToString();
  }
  return outputs;
}

// Returns "path: layout" of the gradient of each parameter along `axis`, if it is not `usual`.
std::string UnusualGradients(const Plan& plan, const Graph& train, int axis,
                             const std::string& usual) {
  std::string unusual;
  int gradients = 0;
  for (const OpId id : train.ops().ids()) {
    const Op& op = train.op(id);
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      const Value& value = train.value(op.outputs[i]);
      for (const State& state : train.states()) {
        if (state.role != Role::kParameter || value.path != state.path + ".grad") continue;
        ++gradients;
        const std::string layout = OutputsOf(plan, train, id, axis)[i];
        if (layout != usual) absl::StrAppend(&unusual, value.path, ": ", layout, "\n");
      }
    }
  }
  EXPECT_EQ(gradients, 16);
  return unusual;
}

TEST(DataParallelTest, EveryGradientIsPartialAndEveryStateBroadcast) {
  const std::vector<Graph> graphs = Graphs();
  const Plan plan = Complete(kDataParallel, 2);
  EXPECT_EQ(UnusualGradients(plan, graphs[0], 0, "P"), "");
  EXPECT_EQ(StoreLines(plan, ""), "targets: data: S(0)\ntokens: data: S(0)\n");
  EXPECT_EQ(plan.stages(0).mesh(0).size(), 2);
  EXPECT_EQ(OperatorLines(plan, 0, {"mlp.fc.matmul", "ln_f.layer_norm", "wte.weight"}),
            R"(blocks.0.mlp.fc.matmul: data: S(0), B -> S(0)
ln_f.layer_norm: data: S(0), B, B -> S(0), S(0), S(0)
ln_f.layer_norm.backward.layer_norm_grad: data: S(0), S(0), B, S(0), S(0) -> S(0), P, P
blocks.0.mlp.fc.matmul.backward.matmul: data: S(0), B -> S(0)
blocks.0.mlp.fc.matmul.backward.matmul_1: data: S(0), S(0) -> P
wte.weight.adamw_update: data: B
)");
}

// The loss is the mean over the targets of the global batch. Sum and count are completed, and the
// gradient of each row is computed on the rank that has the row.
TEST(DataParallelTest, TheLossIsThatOfTheGlobalBatch) {
  EXPECT_EQ(OperatorLines(Complete(kDataParallel, 2), 0, {"loss."}),
            R"(loss.linear_log_sum_exp: data: S(0), B, S(0) -> S(0), S(0)
loss.valid_mask: data: S(0) -> S(0)
loss.subtract: data: S(0), S(0) -> S(0)
loss.multiply: data: S(0), S(0) -> S(0)
loss.reduce_sum: data: S(0) -> P
loss.reduce_sum_1: data: S(0) -> P
loss.fill: data: B
loss.maximum: data: B
loss.divide: data: P, B -> P
loss.divide.backward.divide: data: B
loss.reduce_sum.backward.expand: data: B -> S(0)
loss.multiply.backward.multiply: data: S(0), S(0) -> S(0)
loss.subtract.backward.negate: data: S(0) -> S(0)
loss.linear_log_sum_exp.backward.linear_log_sum_exp_grad: data: S(0), S(0), S(0), B, S(0), S(0) -> S(0), P
)");
}

// The remaining positions have no gradient. Their zeros are partial values, so that the sum over
// ranks comes last, as for every other gradient.
TEST(DataParallelTest, ConstantsBecomePartialWhereTheyAreReadSo) {
  EXPECT_EQ(OperatorLines(Complete(kDataParallel, 2), 0, {"embed.split"}),
            R"(embed.split: data: B
embed.split.backward.fill: data:  -> P
embed.split.backward.concat: data: P, P -> P
)");
}

TEST(FullyShardedTest, UpdatesRunOnTheRangeOfAFlatGroup) {
  const std::vector<Graph> graphs = Graphs();
  const Plan plan = Complete(kFullySharded, 2);
  EXPECT_EQ(UnusualGradients(plan, graphs[0], 0, "P"), "");
  EXPECT_EQ(OperatorLines(plan, 0,
                          {"mlp.fc.bias", "update.sum_squares_1:", "update.add_14",
                           "update.sum_squares_15", "update.sqrt"}),
            R"(update.sum_squares_15: data: flat
update.add_14: data: P, P -> P
update.sqrt: data: B
blocks.0.mlp.fc.bias.adamw_update: data: flat
)");
  EXPECT_EQ(OperatorLines(plan, 1, {"mlp.fc.bias"}), R"(blocks.0.mlp.fc.bias.fill: data: flat
blocks.0.mlp.fc.bias.adam_m.fill: data: flat
blocks.0.mlp.fc.bias.adam_v.fill: data: flat
)");
  EXPECT_EQ(OperatorLines(plan, 2, {"mlp.fc"}), R"(blocks.0.mlp.fc.matmul: data: S(0), B -> S(0)
blocks.0.mlp.fc.add: data: S(0), B -> S(0)
)");
}

TEST(FullyShardedTest, EachBlockIsOneGroup) {
  TransformerSizes sizes;
  sizes.layers = 2;
  const Plan plan = Completed(ReadPlanFile(kFullySharded), Graphs(sizes), 2);
  ASSERT_EQ(plan.stages(0).group_size(), 3);
  EXPECT_EQ(plan.stages(0).group(0).path(),
            "blocks.0.ln1.weight|blocks.0.ln1.bias|blocks.0.attn.qkv.weight|"
            "blocks.0.attn.qkv.bias|blocks.0.attn.proj.weight|blocks.0.attn.proj.bias|"
            "blocks.0.ln2.weight|blocks.0.ln2.bias|blocks.0.mlp.fc.weight|blocks.0.mlp.fc.bias|"
            "blocks.0.mlp.proj.weight|blocks.0.mlp.proj.bias");
  EXPECT_EQ(plan.stages(0).group(2).path(), "wte.weight|wpe.weight|ln_f.weight|ln_f.bias");
  ASSERT_EQ(plan.stages(0).group(2).over_size(), 1);
  EXPECT_EQ(plan.stages(0).group(2).over(0), "data");
}

// Parameters are stored and read in full. Only their optimizer state and their updates are flat.
TEST(Zero1Test, OnlyUpdatesAndOptimizerStateAreFlat) {
  const Plan plan = Complete(kZero1, 2);
  ASSERT_EQ(plan.stages(0).group_size(), 2);
  EXPECT_EQ(plan.stages(0).group(0).gather(), GroupChoice::AFTER_UPDATE);
  EXPECT_EQ(plan.stages(0).group(0).reduce(), GroupChoice::AFTER_LAST);
  EXPECT_EQ(OperatorLines(plan, 0, {"mlp.fc.bias", "update.sum_squares_15", "mlp.fc.add"}),
            R"(blocks.0.mlp.fc.add: data: S(0), B -> S(0)
blocks.0.mlp.fc.add.backward.reduce_sum: data: S(0) -> P
update.sum_squares_15: data: flat
blocks.0.mlp.fc.bias.adamw_update: data: flat
)");
  EXPECT_EQ(OperatorLines(plan, 1, {"mlp.fc.bias"}), R"(blocks.0.mlp.fc.bias.fill: data: B
blocks.0.mlp.fc.bias.adam_m.fill: data: flat
blocks.0.mlp.fc.bias.adam_v.fill: data: flat
)");
  EXPECT_EQ(OperatorLines(plan, 2, {"mlp.fc"}), R"(blocks.0.mlp.fc.matmul: data: S(0), B -> S(0)
blocks.0.mlp.fc.add: data: S(0), B -> S(0)
)");
}

TEST(TensorParallelTest, FollowsHeadsHiddenUnitsAndWords) {
  const Plan plan = Complete(kTensorParallel, 2);
  EXPECT_EQ(OperatorLines(plan, 2, {""}), R"(embed.split: model: B
embed.embedding: model: S(0), B -> P
embed.add: model: B
blocks.0.ln1.layer_norm: model: B
blocks.0.attn.qkv.reshape: model: S(0) -> S(0, 6)
blocks.0.attn.qkv.reshape_1: model: S(0) -> S(0, 6)
blocks.0.attn.qkv.matmul: model: B, S(0, 6) -> S(2, 6)
blocks.0.attn.qkv.add: model: S(2, 6), S(0, 6) -> S(2, 6)
blocks.0.attn.reshape: model: S(2, 6) -> S(2)
blocks.0.attn.split: model: S(2) -> S(2), S(2), S(2)
blocks.0.attn.reshape_1: model: S(2) -> S(2)
blocks.0.attn.reshape_2: model: S(2) -> S(2)
blocks.0.attn.reshape_3: model: S(2) -> S(2)
blocks.0.attn.attention: model: S(2), S(2), S(2) -> S(2), S(1)
blocks.0.attn.reshape_4: model: S(2) -> S(2, 2)
blocks.0.attn.proj.matmul: model: S(2, 2), S(1, 2) -> P
blocks.0.attn.proj.add: model: B
blocks.0.attn.add: model: B
blocks.0.ln2.layer_norm: model: B
blocks.0.mlp.fc.matmul: model: B, S(0) -> S(2)
blocks.0.mlp.fc.add: model: S(2), S(0) -> S(2)
blocks.0.mlp.gelu: model: S(2) -> S(2)
blocks.0.mlp.proj.matmul: model: S(2), S(1) -> P
blocks.0.mlp.proj.add: model: B
blocks.0.mlp.add: model: B
ln_f.layer_norm: model: B
loss.linear_log_sum_exp: model: B, S(0), B -> P(lse), P
loss.valid_mask: model: B
loss.subtract: model: B
loss.multiply: model: B
loss.reduce_sum: model: B
loss.reduce_sum_1: model: B
loss.fill: model: B
loss.maximum: model: B
loss.divide: model: B
)");
}

TEST(TensorParallelTest, GradientsAreDuals) {
  EXPECT_EQ(
      OperatorLines(Complete(kTensorParallel, 2), 0,
                    {"blocks.0.mlp.proj.matmul.b", "blocks.0.mlp.fc.matmul.b", "attn.attention.b",
                     "ln2.layer_norm.b", "attn.split.b", "embedding.b", "exp.b", "mlp.fc.add.b"}),
      R"(loss.linear_log_sum_exp.backward.linear_log_sum_exp_grad: model: B, B, B, S(0), B, B -> P, S(0)
blocks.0.mlp.proj.matmul.backward.matmul: model: B, S(1) -> S(2)
blocks.0.mlp.proj.matmul.backward.matmul_1: model: B, S(2) -> S(1)
blocks.0.mlp.fc.add.backward.reduce_sum: model: S(2) -> S(0)
blocks.0.mlp.fc.matmul.backward.matmul: model: S(2), S(0) -> P
blocks.0.mlp.fc.matmul.backward.matmul_1: model: S(2), B -> S(0)
blocks.0.ln2.layer_norm.backward.layer_norm_grad: model: B
blocks.0.ln2.layer_norm.backward.add: model: B
blocks.0.attn.attention.backward.attention_grad: model: S(2), S(2), S(2), S(2), S(2), S(1) -> S(2), S(2), S(2)
blocks.0.attn.split.backward.concat: model: S(2), S(2), S(2) -> S(2)
embed.embedding.backward.embedding_grad: model: B, B -> S(0)
embed.embedding.backward.add: model: S(0), S(0) -> S(0)
)");
}

TEST(TensorParallelTest, ABlockHasTwoPartialActivationsInEachDirection) {
  const std::vector<Graph> graphs = Graphs();
  for (const char* file : {kTensorParallel, kDataTensorParallel}) {
    const int axis = file == kTensorParallel ? 0 : 1;
    const Plan plan = Complete(file, file == kTensorParallel ? 2 : 4);
    std::string partial;
    for (const OpId id : graphs[0].ops().ids()) {
      const Op& op = graphs[0].op(id);
      if (!InScope(op.path, "blocks.0")) continue;
      for (const std::string& layout : OutputsOf(plan, graphs[0], id, axis)) {
        if (layout[0] == 'P') absl::StrAppend(&partial, op.path, ": ", layout, "\n");
      }
    }
    EXPECT_EQ(partial, R"(blocks.0.attn.proj.matmul: P
blocks.0.mlp.proj.matmul: P
blocks.0.mlp.fc.matmul.backward.matmul: P
blocks.0.attn.qkv.matmul.backward.matmul: P
)") << file;
  }
}

TEST(TensorParallelTest, StateIsMadeAndUpdatedAsItIsStored) {
  const Plan plan = Complete(kTensorParallel, 2);
  EXPECT_EQ(OperatorLines(plan, 1, {"mlp.proj"}),
            R"(blocks.0.mlp.proj.weight.random_normal: model: B -> S(1)
blocks.0.mlp.proj.bias.fill: model: B
blocks.0.mlp.proj.weight.adam_m.fill: model:  -> S(1)
blocks.0.mlp.proj.weight.adam_v.fill: model:  -> S(1)
blocks.0.mlp.proj.bias.adam_m.fill: model: B
blocks.0.mlp.proj.bias.adam_v.fill: model: B
)");
  EXPECT_EQ(OperatorLines(plan, 0, {"mlp.proj.weight.adamw", "mlp.proj.bias.adamw"}),
            "blocks.0.mlp.proj.weight.adamw_update: model: S(1), S(1), S(1), S(1), B, B, B, B -> "
            "S(1), S(1), S(1)\nblocks.0.mlp.proj.bias.adamw_update: model: B\n");
  EXPECT_EQ(StoreLines(plan, "mlp.proj"), R"(blocks.0.mlp.proj.weight: model: S(1)
blocks.0.mlp.proj.weight.adam_m: model: S(1)
blocks.0.mlp.proj.weight.adam_v: model: S(1)
)");
  // A full gradient counts once in the norm of mixed gradients.
  EXPECT_EQ(OperatorLines(plan, 0,
                          {"update.sum_squares_12", "update.add_11", "update.add_12",
                           "update.sum_squares_13", "update.sqrt"}),
            R"(update.sum_squares_12: model: S(1) -> P
update.add_11: model: P, P -> P
update.sum_squares_13: model: B
update.add_12: model: P, P -> P
update.sqrt: model: B
)");
}

TEST(TwoAxesTest, EachAxisIsCompletedAsIfItWereAlone) {
  const Plan plan = Complete(kDataTensorParallel, 4);
  EXPECT_EQ(OperatorLines(plan, 0, {"mlp.fc.matmul", "exp.backward"}),
            R"(blocks.0.mlp.fc.matmul: data: S(0), B -> S(0); model: B, S(0) -> S(2)
loss.linear_log_sum_exp.backward.linear_log_sum_exp_grad: data: S(0), S(0), S(0), B, S(0), S(0) -> S(0), P; model: B, B, B, S(0), B, B -> P, S(0)
blocks.0.mlp.fc.matmul.backward.matmul: data: S(0), B -> S(0); model: S(2), S(0) -> P
blocks.0.mlp.fc.matmul.backward.matmul_1: data: S(0), S(0) -> P; model: S(2), B -> S(0)
)");
  EXPECT_EQ(UnusualGradients(plan, Graphs()[0], 0, "P"), "");
  EXPECT_EQ(plan.stages(0).mesh(1).size(), 2);
}

TEST(TwoAxesTest, HybridShardingSumsOverReplicasAndScattersWithinOne) {
  const Plan plan = Complete(kHybridSharded, 4);
  const std::vector<Graph> graphs = Graphs();
  EXPECT_EQ(UnusualGradients(plan, graphs[0], 0, "P"), "");
  EXPECT_EQ(UnusualGradients(plan, graphs[0], 1, "P"), "");
  EXPECT_EQ(OperatorLines(plan, 0, {"mlp.fc.matmul", "mlp.fc.weight"}),
            R"(blocks.0.mlp.fc.matmul: replica: S(0), B -> S(0); shard: S(0), B -> S(0)
blocks.0.mlp.fc.matmul.backward.matmul: replica: S(0), B -> S(0); shard: S(0), B -> S(0)
blocks.0.mlp.fc.matmul.backward.matmul_1: replica: S(0), S(0) -> P; shard: S(0), S(0) -> P
blocks.0.mlp.fc.weight.adamw_update: replica: B; shard: flat
)");
}

TEST(CompletePlanTest, CompletingAgainChangesNothing) {
  const std::vector<Graph> graphs = Graphs();
  for (const char* file : {kDataParallel, kFullySharded, kTensorParallel, kDataTensorParallel,
                           kHybridSharded, kZero1}) {
    const Plan plan = Completed(ReadPlanFile(file), graphs, 4);
    EXPECT_EQ(Completed(plan, graphs, 4).DebugString(), plan.DebugString()) << file;
    EXPECT_EQ(Completed(ReadPlanFile(file), graphs, 4).DebugString(), plan.DebugString());
  }
}

TEST(CompletePlanTest, ACompletedPlanIsReplayedForSomeOfItsGraphs) {
  const std::vector<Graph> graphs = Graphs();
  const Plan plan = Completed(ReadPlanFile(kDataTensorParallel), graphs, 4);
  const Plan replayed = Completed(plan, {graphs[2]}, 4);
  EXPECT_EQ(OperatorLines(replayed, 2, {""}), OperatorLines(plan, 2, {""}));
}

TEST(CompletePlanTest, WithoutAMeshNothingChanges) {
  const Plan plan = ParsePlan("format: 2 stages { parts { graph: 'train' micro_batches: 2 } }");
  EXPECT_EQ(Completed(plan, Graphs(), 1).DebugString(), plan.DebugString());
}

TEST(CompletePlanTest, PartsMayBeUnevenAndEmpty) {
  TransformerSizes sizes;
  sizes.batch = 3;
  sizes.heads = 3;
  sizes.vocabulary = 11;
  for (const char* file : {kDataParallel, kTensorParallel}) {
    const Plan plan = Completed(ReadPlanFile(file), Graphs(sizes), 5);
    EXPECT_EQ(OperatorLines(plan, 2, {"fc.matmul", "embed.embedding", "attention"}),
              OperatorLines(Complete(file, 2), 2, {"fc.matmul", "embed.embedding", "attention"}));
  }
}

// Parameters are not sharded: the gradient is scattered, the update runs on a part, and its result
// is gathered.
TEST(CompletePlanTest, OptimizerStateMayBeStoredApartFromItsParameter) {
  Plan plan = ReadPlanFile(kDataParallel);
  StoreChoice& store = *plan.mutable_stages(0)->add_store();
  store.set_path("wte.weight.*");
  store.set_layout("data: S(0)");
  plan = Completed(plan, Graphs(), 2);
  EXPECT_EQ(StoreLines(plan, "wte"),
            "wte.weight.adam_m: data: S(0)\nwte.weight.adam_v: data: S(0)\n");
  EXPECT_EQ(OperatorLines(plan, 0, {"wte.weight.adamw", "update.sum_squares_1:"}),
            "wte.weight.adamw_update: data: S(0), S(0), S(0), S(0), B, B, B, B -> S(0), S(0), "
            "S(0)\n");
  EXPECT_EQ(StoreLines(plan, "wpe"), "");
}

TEST(CompletePlanTest, CachesAreStoredAsTheyAreMade) {
  Graph graph("generate");
  const TensorType token = {DType::kF32, {1, 1, 4, 2}}, cache = {DType::kF32, {1, 8, 4, 2}};
  const Tensor q = graph.Input("q", token), k = graph.Input("k", token),
               v = graph.Input("v", token), position = graph.Input("position", {DType::kI64, {}});
  const Tensor k_cache =
      graph.DeclareState("k_cache", cache, Role::kCache, Initializer::Constant(0));
  const Tensor v_cache =
      graph.DeclareState("v_cache", cache, Role::kCache, Initializer::Constant(0));
  const DecodedAttention decoded = AttentionDecode(q, k, v, k_cache, v_cache, position);
  graph.SetState("k_cache", decoded.k_cache);
  graph.SetState("v_cache", decoded.v_cache);
  graph.SetOutput("output", decoded.output);
  ASSERT_TRUE(graph.status().ok()) << graph.status();
  const Plan plan = Completed(
      ParsePlan("stages { mesh { name: 'model' } store { path: 'q|k|v' layout: 'model: S(2)' } }"),
      {graph}, 2);
  EXPECT_EQ(StoreLines(plan, "cache"), "k_cache: model: S(2)\nv_cache: model: S(2)\n");
}

}  // namespace
}  // namespace tessera
