#include "tools/report/step_view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/cluster.h"
#include "core/cost/step_cost.h"
#include "core/train/programs.h"
#include "tools/report/testing/sample_data.h"

namespace tessera {
namespace {

constexpr int kLayers = 3, kChannels = 32, kRanks = 4;

// A compiled run, the cost of its step, and the view of it.
struct Sample {
  std::vector<Graph> graphs;
  CompiledRun run;
  StepCost cost;
  StepView view;
};

Sample MakeSample(const std::string& plan, const std::string& recompute = "",
                  int micro_batches = 1) {
  Sample sample;
  sample.graphs = RecordSampleGpt(kLayers, kChannels);
  sample.run = CompileSample(sample.graphs, SamplePlan(plan, recompute, micro_batches), kRanks);
  const Cluster cluster = SampleCluster();
  const GroupSite site = SiteOnCluster(cluster, kRanks);
  sample.cost = EstimateStep(*sample.run.FindProgram(kTrain), cluster, site);
  for (const Graph& graph : sample.graphs) {
    if (graph.name() != kTrain) continue;
    sample.view = MakeStepView(graph, sample.run, cluster, site, nullptr);
  }
  return sample;
}

int64_t PeakOf(const StepCost& cost, const std::string& category, bool on_host) {
  for (const StepCost::Memory& memory : cost.memory()) {
    if (memory.category() == category && memory.on_host() == on_host) return memory.bytes();
  }
  return 0;
}

double LaneSeconds(const StepView& view, LaneKind kind) {
  double seconds = 0;
  for (const StepLane& lane : view.lanes) {
    if (lane.kind == kind) seconds += lane.seconds;
  }
  return seconds;
}

double CostSeconds(const StepCost& cost, const std::string& category) {
  for (const StepCost::Time& time : cost.times()) {
    if (time.category() == category) return time.seconds();
  }
  return 0;
}

// Returns "label: layout of the first cell, number of cells" of each row that has cells.
std::string RowLines(const PlanRows& plan) {
  std::vector<std::string> lines;
  for (const PlanRow& row : plan.rows) {
    if (row.cells.empty()) continue;
    lines.push_back(absl::StrCat(row.label, ": ", row.cells[0].layout, ", ", row.cells.size()));
  }
  return absl::StrJoin(lines, "\n");
}

const PlanRow& BlocksOf(const PlanRows& plan) {
  for (const PlanRow& row : plan.rows) {
    if (row.units > 1) return row;
  }
  ADD_FAILURE() << "no row is for several blocks";
  return plan.rows[0];
}

const ParameterCell& CellOf(const PlanRow& row, const std::string& name) {
  for (const ParameterCell& cell : row.cells) {
    if (cell.name == name) return cell;
  }
  ADD_FAILURE() << "no cell " << name;
  return row.cells[0];
}

TEST(StepViewTest, ThePeakIsThatOfTheEstimate) {
  for (const std::string plan :
       {"data_parallel", "fully_sharded", "zero1", "data_tensor_parallel", "sliced", "offloaded"}) {
    SCOPED_TRACE(plan);
    const Sample sample = MakeSample(plan);
    ASSERT_EQ(sample.view.memory.size(), plan == "offloaded" ? 2 : 1);
    for (const LiveMemory& memory : sample.view.memory) {
      const bool on_host = memory.side == MemorySide::kHost;
      for (const Category category : kAllCategories) {
        EXPECT_EQ(memory.peak_point().bytes[static_cast<size_t>(category)],
                  PeakOf(sample.cost, std::string(CategoryName(category)), on_host))
            << CategoryName(category);
      }
      EXPECT_LE(memory.points.size(), 302);
      EXPECT_EQ(memory.points.front().seconds, 0);
      EXPECT_DOUBLE_EQ(memory.points.back().seconds, sample.cost.step_seconds());
    }
  }
}

TEST(StepViewTest, LanesAddUpToTheEstimate) {
  for (const std::string plan : {"data_parallel", "fully_sharded", "data_tensor_parallel"}) {
    SCOPED_TRACE(plan);
    const Sample sample = MakeSample(plan, "blocks.*", 2);
    const StepCost& cost = sample.cost;
    const double tolerance = 1e-9 * cost.step_seconds();
    EXPECT_EQ(sample.view.step_seconds, cost.step_seconds());
    EXPECT_NEAR(LaneSeconds(sample.view, LaneKind::kForward), CostSeconds(cost, "forward"),
                tolerance);
    EXPECT_NEAR(LaneSeconds(sample.view, LaneKind::kBackward), CostSeconds(cost, "backward"),
                tolerance);
    EXPECT_NEAR(LaneSeconds(sample.view, LaneKind::kRecomputation),
                CostSeconds(cost, "recomputation"), tolerance);
    EXPECT_GT(CostSeconds(cost, "recomputation"), 0);
    EXPECT_NEAR(LaneSeconds(sample.view, LaneKind::kExposed), cost.exposed_seconds(), tolerance);
    for (const StepLane& lane : sample.view.lanes) {
      double busy = 0;
      for (const LaneSpan& span : lane.spans) busy += span.busy_seconds();
      EXPECT_NEAR(busy, lane.seconds, tolerance) << lane.work;
    }
  }
}

TEST(StepViewTest, FullyShardedByLayer) {
  const Sample sample = MakeSample("fully_sharded");
  const PlanRows& plan = sample.view.plan;
  EXPECT_EQ(plan.mesh, "data: 4");
  EXPECT_EQ(plan.logits, "recomputed");
  EXPECT_EQ(RowLines(plan),
            "wte: flat over data, 1\nwpe: flat over data, 1\nblocks.*: flat over data, 12\n"
            "ln_f: flat over data, 2");
  const PlanRow& blocks = BlocksOf(plan);
  EXPECT_EQ(blocks.units, kLayers);
  EXPECT_EQ(absl::StrJoin(blocks.groups, "|"),
            "12 parameters together, gathered in each phase over data");
  EXPECT_EQ(blocks.cells[0].storage, Storage::kFlat);
  EXPECT_EQ(CellOf(blocks, "mlp.fc.weight").shape, "f32[128, 32]");
  EXPECT_EQ(CellOf(blocks, "mlp.fc.weight").bytes, 4 * 128 * 32);
  EXPECT_EQ(blocks.recomputed, Recomputed::kNothing);
}

TEST(StepViewTest, TensorParallelByLayer) {
  const Sample sample = MakeSample("data_tensor_parallel");
  const PlanRow& blocks = BlocksOf(sample.view.plan);
  EXPECT_EQ(CellOf(blocks, "mlp.proj.weight").layout, "model: S(1)");
  EXPECT_EQ(CellOf(blocks, "mlp.proj.weight").storage, Storage::kSplit);
  EXPECT_EQ(CellOf(blocks, "ln1.weight").layout, "B");
  EXPECT_EQ(CellOf(blocks, "ln1.weight").storage, Storage::kFull);
  std::string signature;
  for (const auto& [name, text] : blocks.operators) {
    if (name == "mlp.proj.matmul") signature = text;
  }
  EXPECT_EQ(signature, "data: S(0), B -> S(0); model: S(2), S(1) -> P");
}

TEST(StepViewTest, SlicesAndSplitOptimizerState) {
  const Sample sliced = MakeSample("sliced");
  const ParameterCell& slices = CellOf(BlocksOf(sliced.view.plan), "mlp.fc.weight");
  EXPECT_EQ(slices.storage, Storage::kMixed);
  EXPECT_EQ(slices.slices, 2);
  EXPECT_EQ(slices.layout, "1 slice B; 1 slice data: S(0)");
  const Sample zero1 = MakeSample("zero1");
  const PlanRow& blocks = BlocksOf(zero1.view.plan);
  EXPECT_EQ(blocks.cells[0].storage, Storage::kSplitOptimizer);
  EXPECT_EQ(blocks.cells[0].layout, "B; optimizer state flat over data");
  EXPECT_EQ(blocks.groups[0],
            "12 parameters together, updated in parts and gathered after the update over data");
}

TEST(StepViewTest, BlocksThatDifferHaveRowsOfTheirOwn) {
  const Sample sample = MakeSample("data_parallel", "blocks.1|blocks.2.mlp.gelu", 2);
  EXPECT_EQ(sample.view.plan.micro_batches, 2);
  std::vector<std::string> labels;
  std::vector<Recomputed> recomputed;
  for (const PlanRow& row : sample.view.plan.rows) {
    if (row.cells.size() < 12) continue;
    labels.push_back(row.label);
    recomputed.push_back(row.recomputed);
  }
  EXPECT_EQ(absl::StrJoin(labels, " "), "blocks.0 blocks.1 blocks.2");
  EXPECT_EQ(recomputed,
            (std::vector<Recomputed>{Recomputed::kNothing, Recomputed::kAll, Recomputed::kSome}));
}

TEST(StepViewTest, EqualBlocksNeedNotBeNeighbours) {
  const Sample sample = MakeSample("data_parallel", "blocks.1");
  std::vector<std::string> labels;
  for (const PlanRow& row : sample.view.plan.rows) {
    if (row.cells.size() == 12) labels.push_back(row.label);
  }
  EXPECT_EQ(absl::StrJoin(labels, " "), "blocks.{0, 2} blocks.1");
}

}  // namespace
}  // namespace tessera
