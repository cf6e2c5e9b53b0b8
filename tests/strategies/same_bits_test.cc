// ddp and every mode of fsdp give the same bits as each other: they reduce in one order.
#include <string>
#include <vector>

#include "core/cost/cluster.h"
#include "core/kernels/cpu/backend.h"
#include "gtest/gtest.h"
#include "strategies/conformance/small_models.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"

namespace tessera {
namespace {

struct Mode {
  std::string strategy;
  std::string option;
};

TrainingResult TrainBy(const TrainingRun& run, const Mode& mode, int ranks) {
  const auto plugin = Plugin::Load("strategies/" + mode.strategy + "/" + mode.strategy + ".so");
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  const std::unique_ptr<Backend> backend = run.backend();
  const Cluster cluster = ClusterOfMachine("test", MachineRates());
  const auto context = std::make_shared<const PlanningContext>(
      run.graphs, PlanningFor{backend.get(), ranks, cluster, SiteOnCluster(cluster, ranks)});
  strategy::PlanRequest request;
  request.set_ranks(ranks);
  std::vector<std::string> settings;
  if (!mode.option.empty()) settings.push_back(mode.option);
  const auto values = ReadOptions(*plugin, settings);
  EXPECT_TRUE(values.ok()) << values.status();
  SetOptions(*values, request);
  const auto made = PlanWith(*plugin, request, context, {});
  EXPECT_TRUE(made.ok()) << made.status();
  auto result = Train(run, made->plan, ranks);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : TrainingResult();
}

const std::vector<Mode>& Modes() {
  static const auto* const modes = new std::vector<Mode>{
      {"ddp", ""},
      {"ddp", "bucket_mb=0"},
      {"fsdp", ""},
      {"fsdp", "reshard=no"},
      {"fsdp", "reshard_root=yes"},
      {"fsdp", "shard=gradients"},
      {"fsdp", "shard=none"},
      {"fsdp", "prefetch=3"},
      {"fsdp", "in_flight=0"},
  };
  return *modes;
}

TrainingRun OddRun(int batch) {
  GptSizes sizes = OddSizes();
  sizes.batch = batch;
  sizes.clip_norm = 0;  // a norm is summed in another order
  TrainingRun run = SmallGpt(sizes);
  run.steps = 4;
  run.backend = [] { return MakeCpuBackend(1); };
  return run;
}

TEST(SameBitsTest, OfAllModes) {
  const TrainingRun run = OddRun(/*batch=*/5);
  for (const int ranks : {2, 3, 4, 8}) {
    const TrainingResult first = TrainBy(run, Modes()[0], ranks);
    ASSERT_GT(first.states.size(), 4u);
    for (const Mode& mode : Modes()) {
      EXPECT_EQ(TrainBy(run, mode, ranks).states, first.states)
          << mode.strategy << " " << mode.option << " on " << ranks << " ranks";
    }
  }
}

// Where replicas and ranks are powers of two, and each rank has the same rows.
TEST(SameBitsTest, OfHybridSharding) {
  const TrainingRun run = OddRun(/*batch=*/8);
  for (const int ranks : {4, 8}) {
    const TrainingResult first = TrainBy(run, {"ddp", ""}, ranks);
    for (const char* option : {"replicas=2", "replicas=4"}) {
      EXPECT_EQ(TrainBy(run, {"fsdp", option}, ranks).states, first.states)
          << option << " on " << ranks << " ranks";
    }
  }
}

}  // namespace
}  // namespace tessera
