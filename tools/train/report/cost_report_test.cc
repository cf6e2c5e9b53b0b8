#include "tools/train/report/cost_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "core/compile/compile.h"
#include "core/cost/cluster.h"
#include "core/cost/step_cost.h"
#include "core/kernels/reference/backend.h"
#include "core/ops/ops.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Compiles two layers of one shape, whose parameters are gathered one by one, and a head that every
// rank has.
CompiledRun Compiled(const Backend& backend, GroupChoice::Gather gather = GroupChoice::GATHER_UNSET,
                     bool offload = false) {
  Graph graph("train");
  Tensor y = graph.Input("x", {DType::kF32, {4, 8}});
  for (const char* layer : {"blocks.0.w", "blocks.1.w"}) {
    y = Exp(MatMul(y, graph.Parameter(layer, {8, 8}, Initializer::Constant(0)), false, true));
  }
  graph.SetOutput(
      "y", ReduceSum(Multiply(y, graph.Parameter("head", {8}, Initializer::Constant(0))), {0, 1}));
  Plan plan;
  Stage& stage = *plan.add_stages();
  stage.add_mesh()->set_name("data");
  StoreChoice& store = *stage.add_store();
  store.set_path("x");
  store.set_layout("data: S(0)");
  GroupChoice& group = *stage.add_group();
  group.set_path("blocks.*");
  group.set_each(true);
  group.add_over("data");
  group.set_gather(gather);
  if (offload) stage.add_pass()->mutable_offload();
  auto run = CompileRun({graph}, plan, backend, 2);
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

StepCost Estimated(const CompiledRun& run) {
  return EstimateStep(run.programs[0], ClusterOfMachine("test", MachineRates{1e9, 1e9}));
}

// Lines of equal cells end in the same column.
void ExpectAligned(const std::string& table, size_t first, size_t count) {
  const std::vector<std::string> rows = absl::StrSplit(table, '\n');
  ASSERT_GE(rows.size(), first + count);
  for (size_t i = first; i < first + count; ++i) {
    EXPECT_EQ(rows[i].size(), rows[first].size()) << table;
  }
}

TEST(CostReportTest, ThePlan) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const CompiledRun run = Compiled(*backend);
  const std::string table = PlanTable(run.plan, run.programs[0]);
  EXPECT_THAT(table, StartsWith("plan on {data: 2}  "));
  EXPECT_THAT(table, HasSubstr("\nunits blocks.*.w                           2       512 B    1.00 "
                               "KiB  gathered in each phase\n"));
  EXPECT_THAT(table, HasSubstr("\ngathers of parameters                      2       512 B    1.00 "
                               "KiB\nother collectives                          1         8 B      "
                               "   8 B\n"));
  const CompiledRun once = Compiled(*backend, GroupChoice::ONCE);
  EXPECT_THAT(PlanTable(once.plan, once.programs[0]), HasSubstr("KiB  gathered once\n"));
}

TEST(CostReportTest, CopiesToAndFromTheHost) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const CompiledRun run = Compiled(*backend, GroupChoice::GATHER_UNSET, /*offload=*/true);
  const std::string table = PlanTable(run.plan, run.programs[0]);
  EXPECT_THAT(table, HasSubstr("\ncopies from the host                       3       256 B       "
                               "576 B\n"));
  EXPECT_THAT(table, Not(HasSubstr("copies to the host")));
}

TEST(CostReportTest, TheEstimate) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const std::string table = EstimateTable(Estimated(Compiled(*backend)), "two toasters");
  EXPECT_THAT(table, StartsWith("estimated for a step "));
  EXPECT_THAT(table, HasSubstr("\nall-gather along data                      2       512 B "));
  EXPECT_THAT(table, HasSubstr("\nall-reduce along data                      1         8 B "));
  EXPECT_THAT(table, HasSubstr("\nstep 0.0"));
  EXPECT_THAT(table, HasSubstr(" (for two toasters)\n"));
  ExpectAligned(table, 0, 3);
}

TEST(CostReportTest, TheEstimateOfOneRank) {
  StepCost cost;
  cost.set_step_seconds(0.25);
  EXPECT_EQ(StepTimeLine(cost, "a toaster"), "step 250 ms (for a toaster)\n");
}

TEST(CostReportTest, TheRatesOfAnEstimate) {
  Cluster cluster;
  cluster.set_f32_flops_per_second(2e11);
  cluster.set_memory_bytes_per_second(1 << 30);
  cluster.mutable_within_host()->set_latency_seconds(3e-6);
  cluster.mutable_within_host()->set_bytes_per_second(2 << 20);
  cluster.mutable_between_hosts()->set_latency_seconds(5e-5);
  cluster.mutable_between_hosts()->set_bytes_per_second(1 << 20);
  GroupSite site;
  site.host_of = {0};
  EXPECT_EQ(ClusterRatesLine(cluster, site, "measured"),
            "rates: matmul 200 GFLOP/s, memory 1.00 GiB/s (measured)\n");
  cluster.set_bf16_flops_per_second(4e11);
  site.host_of = {0, 1};
  EXPECT_EQ(ClusterRatesLine(cluster, site, "f"),
            "rates: matmul 200 GFLOP/s (bf16 400 GFLOP/s), memory 1.00 GiB/s; between hosts 50 us "
            "and 1.00 MiB/s (f)\n");
  site.host_of = {0, 0, 1};
  EXPECT_THAT(ClusterRatesLine(cluster, site, "f"),
              HasSubstr("; within a host 3 us and 2.00 MiB/s; between hosts 50 us"));
}

TEST(CostReportTest, TheMeasurementBesideIt) {
  const std::unique_ptr<Backend> backend = MakeReferenceBackend();
  const StepCost estimated = Estimated(Compiled(*backend));
  StepCost measured = estimated;
  measured.set_step_seconds(0.5);
  measured.mutable_collectives(0)->set_seconds(0.3);
  measured.mutable_collectives(0)->set_exposed_seconds(0.1);
  const std::string table = CostTable(estimated, measured, 7);
  EXPECT_THAT(table, HasSubstr("\nforward "));
  EXPECT_THAT(table, HasSubstr("      500 ms\n"));
  EXPECT_THAT(table, HasSubstr("      300 ms      100 ms      200 ms\n"));
  EXPECT_THAT(table, HasSubstr("\nmeasured in 7 steps, the mean of all ranks"));
  ExpectAligned(table, 0, 4);
  ExpectAligned(table, 4, 3);
}

}  // namespace
}  // namespace tessera
