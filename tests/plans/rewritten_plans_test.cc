// The Plans of docs/plans on GPT and the MLP, rewritten into micro-batches and with recomputation:
// every copy of an op has the op's signature in the Plan, and data that was communicated once per
// step is not communicated once per micro-batch.
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/ids/table.h"
#include "core/layout/layout_proto.h"
#include "core/layout/mesh.h"
#include "core/plan/layouts/graph_layouts.h"
#include "core/plan/layouts/layout_decisions.h"
#include "core/plan/rewrite_and_lay_out.h"
#include "core/plan/testing/completion.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "models/gpt/gpt.h"
#include "models/mlp/mlp.h"

namespace tessera {
namespace {

constexpr char kDataParallel[] = "docs/plans/data_parallel.textproto";
constexpr char kFullySharded[] = "docs/plans/fully_sharded.textproto";
constexpr char kHybridSharded[] = "docs/plans/hybrid_sharded.textproto";
constexpr char kTensorParallel[] = "docs/plans/tensor_parallel.textproto";
constexpr char kDataTensorParallel[] = "docs/plans/data_tensor_parallel.textproto";

std::unique_ptr<Model> MakeModel(const std::string& name) {
  if (name == "mlp") {
    MlpConfig config;
    config.set_window(12);
    config.set_channels(10);
    config.add_hidden(32);
    config.set_vocabulary(61);
    return *CreateMlp(config);
  }
  GptConfig config;
  config.set_layers(2);
  config.set_heads(4);
  config.set_channels(16);
  config.set_vocabulary(61);
  config.set_context(16);
  config.set_dropout(0.1);
  config.set_untied_head(name == "gpt_untied");
  return *CreateGpt(config);
}

struct Setting {
  std::string model;
  std::string file;
  int ranks = 1;
  int64_t micro_batches = 1;
  std::string recompute = "none";

  std::string ToString() const {
    return absl::StrCat(model, ", ", file, ", ", ranks, " ranks, ", micro_batches,
                        " micro-batches, recompute: ", recompute);
  }
};

std::vector<Setting> Settings() {
  std::vector<Setting> settings;
  const auto add = [&](const std::string& model, const char* file, int ranks) {
    for (int64_t micro_batches : {1, 2, 4}) {
      for (const char* recompute : {"none", "block"}) {
        settings.push_back({model, file, ranks, micro_batches, recompute});
      }
    }
  };
  for (const char* file : {kDataParallel, kFullySharded, kTensorParallel}) add("gpt", file, 2);
  for (const char* file : {kHybridSharded, kDataTensorParallel}) add("gpt", file, 4);
  add("gpt_untied", kDataParallel, 3);
  add("mlp", kDataParallel, 2);
  return settings;
}

// The layouts in which each value of a laid out Graph is produced and read.
struct Flow {
  Table<ValueId, MeshLayout> made;
  Table<ValueId, std::vector<std::pair<OpId, MeshLayout>>> read;
  std::map<std::string, MeshLayout> inputs;  // by path, as stored
};

MeshLayout Together(const std::vector<AxisUse>& uses, size_t i, bool input) {
  std::vector<AxisLayout> axes;
  for (const AxisUse& use : uses) {
    axes.push_back(input ? use.signature.inputs[i] : use.signature.outputs[i]);
  }
  return MeshLayout(axes);
}

struct LaidOut {
  std::vector<Graph> graphs;  // recorded
  Mesh mesh;
  LayoutDecisions decisions;
  Plan plan;
};

LaidOut Prepare(const Setting& setting) {
  RunConfig config;
  config.set_batch(12);
  config.set_sequence(12);
  config.set_micro_batches(setting.micro_batches);
  config.set_recompute(setting.recompute);
  config.mutable_optimizer()->set_kind("adamw");
  config.mutable_optimizer()->set_clip_norm(1);
  LaidOut out;
  out.graphs = RecordRun(*MakeModel(setting.model), config, RunGraphs::kAll).value();
  Plan open = ReadPlanFile(setting.file);
  *open.mutable_stages(0)->mutable_parts() = PlanOfConfig(config, out.graphs).stages(0).parts();
  out.plan = Completed(open, out.graphs, setting.ranks);
  const Stage& stage = out.plan.stages(0);
  out.mesh = Mesh::ForRanks(AxesFromProto(stage.mesh()), setting.ranks).value();
  out.decisions = FindDecisions(stage, out.graphs, out.mesh).value();
  return out;
}

absl::StatusOr<RewrittenGraph> Rewritten(const LaidOut& laid_out, int g, const PlanPart& part) {
  const Graph& graph = laid_out.graphs[g];
  return RewriteAndLayOut(graph, LayOutGraph(graph, g, laid_out.mesh, laid_out.decisions).value(),
                          part, laid_out.mesh, laid_out.decisions);
}

const MeshLayout& StoredOf(const LaidOut& laid_out, const std::string& path) {
  return laid_out.decisions.stored.at(path).layout;
}

Flow FlowOf(const LaidOut& laid_out, const RewrittenGraph& rewritten) {
  const Graph& graph = rewritten.graph;
  Flow flow;
  flow.made.assign(graph.values().size(), MeshLayout(laid_out.mesh.num_axes()));
  flow.read.resize(graph.values().size());
  for (const GraphInput& input : graph.inputs()) {
    flow.made[input.value] = StoredOf(laid_out, input.origin);
  }
  for (const OpId id : graph.ops().ids()) {
    const Op& op = graph.op(id);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      flow.read[op.inputs[i]].push_back({id, Together(rewritten.layouts.ops[id], i, true)});
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      flow.made[op.outputs[i]] = Together(rewritten.layouts.ops[id], i, false);
    }
  }
  return flow;
}

class RewrittenPlansTest : public ::testing::Test {
 protected:
  // Calls `check` with each rewritten Graph of each setting.
  template <typename Check>
  void ForEach(const Check& check) {
    for (const Setting& setting : Settings()) {
      SCOPED_TRACE(setting.ToString());
      const LaidOut laid_out = Prepare(setting);
      for (size_t g = 0; g < laid_out.graphs.size(); ++g) {
        const auto rewritten = Rewritten(laid_out, static_cast<int>(g),
                                         laid_out.plan.stages(0).parts(static_cast<int>(g)));
        ASSERT_TRUE(rewritten.ok()) << rewritten.status();
        ASSERT_EQ(rewritten->layouts.ops.size(), rewritten->graph.ops().size());
        check(setting, laid_out, static_cast<int>(g), *rewritten);
      }
    }
  }
};

TEST_F(RewrittenPlansTest, EachCopyIsComputedAsItsOrigin) {
  int copies = 0, recomputed = 0;
  ForEach([&](const Setting&, const LaidOut& laid_out, int g, const RewrittenGraph& rewritten) {
    const PlanPart& part = laid_out.plan.stages(0).parts(g);
    std::map<std::string, std::string> planned;
    for (const ComputeChoice& choice : part.compute()) {
      planned[choice.path()] = choice.signature();
    }
    for (const OpId i : rewritten.graph.ops().ids()) {
      const Op& op = rewritten.graph.ops()[i];
      if (op.origin.empty()) continue;
      ASSERT_EQ(planned.count(op.origin.str()), 1) << op.path;
      EXPECT_EQ(AxisUsesToString(rewritten.layouts.ops[i], laid_out.mesh), planned[op.origin.str()])
          << op.path;
      if (op.path != op.origin.str()) ++copies;
      if (op.recomputed) ++recomputed;
    }
  });
  EXPECT_GT(copies, 1000);
  EXPECT_GT(recomputed, 100);
}

// The rows of each micro-batch are stored on the ranks that read them.
TEST_F(RewrittenPlansTest, TokensAreReadAsTheyAreStored) {
  int read = 0;
  ForEach([&](const Setting&, const LaidOut& laid_out, int, const RewrittenGraph& rewritten) {
    const Flow flow = FlowOf(laid_out, rewritten);
    for (const GraphInput& input : rewritten.graph.inputs()) {
      if (input.batch_dim == kNone) continue;
      for (const auto& [op, layout] : flow.read[input.value]) {
        EXPECT_EQ(layout, flow.made[input.value])
            << rewritten.graph.op(op).path << " reads " << rewritten.graph.value(input.value).path
            << " as " << layout.ToString(laid_out.mesh);
        ++read;
      }
    }
  });
  EXPECT_GT(read, 100);
}

// The sum of partial values is partial, so an accumulation has no collective.
TEST_F(RewrittenPlansTest, AccumulationIsLocal) {
  int accumulations = 0, of_partials = 0;
  ForEach([&](const Setting&, const LaidOut& laid_out, int, const RewrittenGraph& rewritten) {
    const Flow flow = FlowOf(laid_out, rewritten);
    for (const OpId id : rewritten.graph.ops().ids()) {
      const Op& op = rewritten.graph.op(id);
      if (!op.origin.empty() || op.kind->name() != "add") continue;
      ++accumulations;
      const MeshLayout sum = flow.made[op.outputs[0]];
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const MeshLayout layout = Together(rewritten.layouts.ops[id], i, true);
        EXPECT_EQ(layout, flow.made[op.inputs[i]]) << op.path;
        EXPECT_EQ(layout, sum) << op.path;
      }
      if (sum.partial()) ++of_partials;
    }
  });
  EXPECT_GT(accumulations, 500);
  EXPECT_GT(of_partials, 500);
}

// A complete gradient changes its layout as often as without micro-batches.
TEST_F(RewrittenPlansTest, GradientsAreReducedOncePerStep) {
  int reduced = 0;
  ForEach([&](const Setting&, const LaidOut& laid_out, int g, const RewrittenGraph& rewritten) {
    if (laid_out.graphs[g].name() != kTrain) return;
    const auto moves = [&](const RewrittenGraph& graph) {
      std::map<std::string, std::vector<std::string>> moved;  // by parameter
      const Flow flow = FlowOf(laid_out, graph);
      for (const ValueId v : flow.made.ids()) {
        const ValueId parameter = graph.graph.values()[v].complete_gradient_of;
        if (parameter == kNone) continue;
        for (const auto& [op, layout] : flow.read[v]) {
          if (layout == flow.made[v]) continue;
          moved[graph.graph.value(parameter).path].push_back(absl::StrCat(
              graph.graph.values()[v].path, " for ", graph.graph.op(op).origin.str(), ": ",
              flow.made[v].ToString(laid_out.mesh), " -> ", layout.ToString(laid_out.mesh)));
          ++reduced;
        }
      }
      return moved;
    };
    const auto recorded = Rewritten(laid_out, g, PlanPart());
    ASSERT_TRUE(recorded.ok()) << recorded.status();
    EXPECT_EQ(moves(rewritten), moves(*recorded));
  });
  EXPECT_GT(reduced, 500);
}

TEST(RewrittenGraphTest, DataParallelMicroBatchesReadTheirOwnRows) {
  const LaidOut laid_out = Prepare({"gpt", kDataParallel, 2, 2, "none"});
  const auto rewritten = Rewritten(laid_out, 1, laid_out.plan.stages(0).parts(1));
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  const Graph& graph = rewritten->graph;
  std::string inputs;
  for (const GraphInput& input : graph.inputs()) {
    const Value& value = graph.value(input.value);
    absl::StrAppend(&inputs, value.path, " ", TypeToString(value.type), " of ", input.origin);
    if (value.region != nullptr) {
      absl::StrAppend(&inputs, " from row ", value.region->start[0], " of ",
                      value.region->global[0]);
    }
    absl::StrAppend(&inputs, "\n");
  }
  EXPECT_EQ(inputs, R"(tokens@0 i32[6, 12] of tokens from row 0 of 12
tokens@1 i32[6, 12] of tokens from row 6 of 12
targets@0 i32[6, 12] of targets from row 0 of 12
targets@1 i32[6, 12] of targets from row 6 of 12
seed i64[] of seed
step i64[] of step
lr f32[] of lr
)");
  std::string lines;
  for (const OpId i : graph.ops().ids()) {
    const Op& op = graph.ops()[i];
    const bool of_loss =
        op.path.rfind("loss.reduce_sum", 0) == 0 || op.path.rfind("loss.divide", 0) == 0;
    if (!of_loss && op.path.rfind("ln_f.weight", 0) != 0) continue;
    absl::StrAppend(&lines, op.path, " (", op.origin.empty() ? "added" : op.origin.str(), ", ",
                    op.micro_batch,
                    "): ", AxisUsesToString(rewritten->layouts.ops[i], laid_out.mesh), "\n");
  }
  EXPECT_EQ(lines, R"(loss.reduce_sum_1@0 (loss.reduce_sum_1, 0): data: S(0) -> P
loss.reduce_sum_1@1 (loss.reduce_sum_1, 1): data: S(0) -> P
loss.reduce_sum_1 (added, -1): data: P, P -> P
loss.divide.backward.divide (loss.divide.backward.divide, -1): data: B
loss.reduce_sum@0 (loss.reduce_sum, 0): data: S(0) -> P
loss.divide@0 (loss.divide, 0): data: P, B -> P
loss.reduce_sum.backward.expand@0 (loss.reduce_sum.backward.expand, 0): data: B -> S(0)
loss.reduce_sum@1 (loss.reduce_sum, 1): data: S(0) -> P
loss.divide@1 (loss.divide, 1): data: P, B -> P
loss.divide (added, -1): data: P, P -> P
loss.reduce_sum.backward.expand@1 (loss.reduce_sum.backward.expand, 1): data: B -> S(0)
ln_f.weight.grad (added, -1): data: P, P -> P
ln_f.weight.adamw_update (ln_f.weight.adamw_update, -1): data: B
)");
}

// Lays out a GPT of 96 layers on 8 x 8 ranks in 8 micro-batches, and prints the time.
TEST(RewrittenGraphTest, AGraphOfManyMicroBatchesIsLaidOutInTime) {
  GptConfig model;
  model.set_layers(96);
  model.set_heads(96);
  model.set_channels(96 * 128);
  model.set_vocabulary(50304);
  model.set_context(16);
  RunConfig config;
  config.set_batch(512);
  config.set_sequence(16);
  config.set_micro_batches(8);
  config.set_recompute("block");
  config.mutable_optimizer()->set_kind("adamw");
  const std::vector<Graph> graphs = RecordRun(**CreateGpt(model), config, RunGraphs::kAll).value();
  Plan open = ReadPlanFile(kDataTensorParallel);
  open.mutable_stages(0)->mutable_mesh(0)->set_size(8);
  *open.mutable_stages(0)->mutable_parts() = PlanOfConfig(config, graphs).stages(0).parts();
  const Plan plan = Completed(open, graphs, 64);
  const Mesh mesh = Mesh::ForRanks(AxesFromProto(plan.stages(0).mesh()), 64).value();
  const absl::Time start = absl::Now();
  const LayoutDecisions decisions = FindDecisions(plan.stages(0), graphs, mesh).value();
  const auto rewritten =
      RewriteAndLayOut(graphs[1], LayOutGraph(graphs[1], 1, mesh, decisions).value(),
                       plan.stages(0).parts(1), mesh, decisions);
  ASSERT_TRUE(rewritten.ok()) << rewritten.status();
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  std::cout << graphs[1].ops().size() << " ops, rewritten to " << rewritten->graph.ops().size()
            << ": " << seconds << " s\n";
  EXPECT_LT(seconds, 10);  // generous: for a busy machine, and for sanitizers
}

}  // namespace
}  // namespace tessera
