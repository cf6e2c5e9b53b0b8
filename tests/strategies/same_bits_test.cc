// Checks that ddp and every mode of fsdp give the same bits, because they reduce in one order, and
// train as one process does.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/cost/cluster.h"
#include "core/kernels/cpu/backend.h"
#include "core/kernels/reference/backend.h"
#include "core/train/programs.h"
#include "gtest/gtest.h"
#include "strategies/conformance/compare_training.h"
#include "strategies/conformance/small_models.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"

namespace tessera {
namespace {

struct Mode {
  std::string strategy;
  std::string options;
  // With more than 1, gradients are accumulated.
  int micro_batches = 1;
};

std::string Describe(const Mode& mode, int ranks) {
  return absl::StrCat(mode.strategy, " ", mode.options, " on ", ranks, " ranks");
}

Plan PlanOf(const TrainingRun& run, const Mode& mode, int ranks) {
  const auto plugin = Plugin::Load("strategies/" + mode.strategy + "/" + mode.strategy + ".so");
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  const std::unique_ptr<Backend> backend = run.backend();
  const Cluster cluster = ClusterOfMachine("test", MachineRates());
  const auto context = std::make_shared<const PlanningContext>(
      run.graphs, PlanningFor{backend.get(), ranks, cluster, SiteOnCluster(cluster, ranks)});
  strategy::PlanRequest request;
  request.set_ranks(ranks);
  request.set_micro_batches(mode.micro_batches);
  const std::vector<std::string> settings = absl::StrSplit(mode.options, ',', absl::SkipEmpty());
  const auto values = ReadOptions(*plugin, settings);
  EXPECT_TRUE(values.ok()) << values.status();
  SetOptions(*values, request);
  const auto made = PlanWith(*plugin, request, context, {});
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return Plan();
  Plan plan = made->plan;
  PlanPart& part = *plan.mutable_stages(0)->add_parts();
  part.set_graph(kTrain);
  part.set_micro_batches(mode.micro_batches);
  return plan;
}

TrainingResult TrainBy(const TrainingRun& run, const Mode& mode, int ranks) {
  auto result = Train(run, PlanOf(run, mode, ranks), ranks);
  EXPECT_TRUE(result.ok()) << Describe(mode, ranks) << ": " << result.status();
  return result.ok() ? *std::move(result) : TrainingResult();
}

// Compares losses, states and, if `gradients`, gradients. The norm of all gradients is summed in
// another order.
void ExpectSameBits(const TrainingResult& result, const TrainingResult& expected, const Mode& mode,
                    int ranks, bool gradients = true) {
  EXPECT_TRUE(result.states == expected.states) << Describe(mode, ranks);
  ASSERT_EQ(result.outputs.size(), expected.outputs.size());
  for (size_t step = 0; step < expected.outputs.size(); ++step) {
    for (const auto& [path, values] : expected.outputs[step]) {
      if (path == "grad_norm" || (!gradients && path != "loss")) continue;
      const auto found = result.outputs[step].find(path);
      ASSERT_NE(found, result.outputs[step].end()) << path;
      EXPECT_TRUE(found->second == values)
          << path << " of step " << step << ", " << Describe(mode, ranks);
    }
  }
}

// Returns the modes that do not lower the precision.
const std::vector<Mode>& Modes() {
  static const auto* const modes = new std::vector<Mode>{
      {"ddp", ""},
      {"ddp", "bucket=0"},
      {"ddp", "bucket=2KiB,first_bucket=1KiB"},
      {"fsdp", ""},
      {"fsdp", "reshard=no"},
      {"fsdp", "reshard_root=yes"},
      {"fsdp", "shard=gradients"},
      {"fsdp", "shard=optimizer"},
      {"fsdp", "shard=optimizer,units=size,unit=2KiB,block=row,offload=optimizer"},
      {"fsdp", "shard=none"},
      {"fsdp", "units=size,unit=2KiB"},
      {"fsdp", "units=pattern,pattern=blocks.*.mlp|blocks.*.attn"},
      {"fsdp", "prefetch=0"},
      {"fsdp", "prefetch=3,in_flight=0"},
      {"fsdp", "prefetch=3,in_flight=1"},
      {"fsdp", "block=row"},
      {"fsdp", "block=7,offload=all"},
  };
  return *modes;
}

// Returns the modes with replicas, or with nodes that keep a unit; the ranks of each are
// consecutive.
const std::vector<Mode>& HybridModes() {
  static const auto* const modes = new std::vector<Mode>{
      {"fsdp", "replicas=2"},
      {"fsdp", "replicas=4"},
      {"fsdp", "replicas=2,reshard=no"},
      {"fsdp", "replicas=2,shard=optimizer"},
      {"fsdp", "replicas=2,shard=gradients,units=size,unit=2KiB"},
      {"fsdp", "reshard=2"},
  };
  return *modes;
}

TrainingRun OddRun(int batch, double clip_norm = 0) {
  GptSizes sizes = OddSizes();
  sizes.batch = batch;
  sizes.clip_norm = clip_norm;
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
      ExpectSameBits(TrainBy(run, mode, ranks), first, mode, ranks);
    }
  }
}

TEST(SameBitsTest, OfProcessesOverSharedMemoryAndTcp) {
  const TrainingRun run = OddRun(/*batch=*/5);
  const TrainingResult first = TrainBy(run, Modes()[0], 2);
  for (const Mode& mode : Modes()) {
    const TrainingResult on_threads = TrainBy(run, mode, 2);
    ExpectSameBits(on_threads, first, mode, 2);
    for (const char* backend : {"shm", "tcp"}) {
      const absl::Status same = TrainOnProcesses(run, PlanOf(run, mode, 2), 2, backend, on_threads);
      EXPECT_TRUE(same.ok()) << Describe(mode, 2) << " over " << backend << ": " << same;
    }
  }
}

// Holds if replicas and ranks are powers of two, and each rank has the same number of rows. The
// gradients that updates read are reduced within a replica first. The gradients that the kit
// outputs are reduced once more, along the axes in the cheapest order.
TEST(SameBitsTest, OfHybridSharding) {
  const TrainingRun run = OddRun(/*batch=*/8);
  for (const int ranks : {4, 8}) {
    const TrainingResult first = TrainBy(run, {"ddp", ""}, ranks);
    for (const Mode& mode : HybridModes()) {
      ExpectSameBits(TrainBy(run, mode, ranks), first, mode, ranks, /*gradients=*/false);
    }
  }
}

TEST(SameBitsTest, OfAccumulation) {
  const TrainingRun run = OddRun(/*batch=*/8);
  for (const int ranks : {2, 4}) {
    const TrainingResult first = TrainBy(run, {"ddp", "", 2}, ranks);
    for (Mode mode : Modes()) {
      mode.micro_batches = 2;
      if (mode.strategy == "fsdp") {
        // Accumulating shards over micro-batches sums in another order than reducing all
        // micro-batches at once.
        EXPECT_LE(Compare(first, TrainBy(run, mode, ranks)).relative, 1e-6)
            << Describe(mode, ranks);
        absl::StrAppend(&mode.options, mode.options.empty() ? "" : ",", "accumulate=full");
      }
      ExpectSameBits(TrainBy(run, mode, ranks), first, mode, ranks);
    }
  }
}

// A norm of shards is summed in another order than one of all elements.
TEST(SameBitsTest, ClippingIsTheSameButForTheOrderOfItsSum) {
  const TrainingRun run = OddRun(/*batch=*/8, /*clip_norm=*/0.5);
  for (const int ranks : {2, 3, 4, 8}) {
    const TrainingResult first = TrainBy(run, Modes()[0], ranks);
    std::vector<Mode> modes = Modes();
    if (ranks >= 4) modes.insert(modes.end(), HybridModes().begin(), HybridModes().end());
    for (const Mode& mode : modes) {
      const Difference difference = Compare(first, TrainBy(run, mode, ranks));
      EXPECT_LE(difference.relative, 1e-6) << difference.where << ", " << Describe(mode, ranks);
    }
  }
}

TEST(SameBitsTest, TwentyStepsAreThoseOfOneProcess) {
  TrainingRun run = OddRun(/*batch=*/5);
  run.steps = 20;
  for (const bool reference : {false, true}) {
    if (reference) run.backend = [] { return MakeReferenceBackend(); };
    const auto alone = Train(run, Plan(), 1);
    ASSERT_TRUE(alone.ok()) << alone.status();
    std::vector<Mode> modes = Modes();
    modes.push_back({"ddp", "embedding=gathered"});  // the same sums in another order
    for (const Mode& mode : modes) {
      const Difference difference = Compare(*alone, TrainBy(run, mode, 2));
      EXPECT_LE(difference.relative, reference ? 1e-10 : 1e-5)
          << difference.where << ", " << Describe(mode, 2);
    }
  }
}

}  // namespace
}  // namespace tessera
