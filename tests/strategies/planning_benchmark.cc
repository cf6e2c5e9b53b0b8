// Times planning: a strategy's Plan with its estimate, and one more candidate in an open planning
// context, which is the cost per candidate of a search, also where a kernel has been chosen for
// each request that several can run. Each candidate changes a decision about another block: when it
// is gathered, or, without groups, whether it is computed again. (It is drawn at random. Each
// instruction of one that needs a workspace adds a buffer to the memory plan, up to a sixth of the
// time of the 175B run.) Pricing alone, of a lowered Plan, grows with the number of ranks. Seconds
// are processor time, so that other load does not count.
//
//   ./bazelw run -c opt //tests/strategies:planning_benchmark
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/cost/cluster.h"
#include "core/kernels/cpu/backend.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "google/protobuf/text_format.h"
#include "models/gpt/gpt.h"
#include "strategies/conformance/drawn_kernels.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"

namespace tessera {
namespace {

constexpr int kRounds = 11;

double SecondsOf(const std::function<absl::Status()>& function, absl::Status* status) {
  const std::clock_t begin = std::clock();
  *status = function();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Returns the seconds in which a context lowers a candidate and prices it.
absl::StatusOr<double> LoweringSeconds(const PlanningContext& context, Plan candidate) {
  strategy::LowerPlans candidates;
  *candidates.add_plans() = std::move(candidate);
  absl::Status status;
  const double seconds = SecondsOf(
      [&]() -> absl::Status {
        const strategy::LoweredPlans lowered = context.Lower(candidates);
        const std::string& error = lowered.plans(0).error();
        return error.empty() ? absl::OkStatus() : absl::InternalError(error);
      },
      &status);
  RETURN_IF_ERROR(status);
  return seconds;
}

// Returns the Plan with another decision about block `i`.
Plan WithBlockChanged(Plan plan, int i) {
  Stage& stage = *plan.mutable_stages(0);
  if (stage.group_size() > 1) {  // the first group is not of a block
    GroupChoice& group = *stage.mutable_group(1 + i % (stage.group_size() - 1));
    group.set_gather(group.gather() == GroupChoice::ONCE ? GroupChoice::EACH_PHASE
                                                         : GroupChoice::ONCE);
    return plan;
  }
  PlanPart* train = nullptr;
  for (PlanPart& part : *stage.mutable_parts()) {
    if (part.graph() == kTrain) train = &part;
  }
  if (train == nullptr) train = stage.add_parts();
  train->set_graph(kTrain);
  train->add_recompute(absl::StrCat("blocks.", i));
  return plan;
}

double MedianOf(std::vector<double> seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return seconds[kRounds / 2];
}

// Returns the median time in which a context prices and simulates a compiled run.
double PricingSeconds(const PlanningContext& context, const CompiledRun& run) {
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    absl::Status status;
    seconds.push_back(SecondsOf(
        [&] {
          context.Estimate(run);
          return absl::OkStatus();
        },
        &status));
  }
  return MedianOf(std::move(seconds));
}

struct Sizes {
  const char* name;
  const char* model;
  int batch, sequence, ranks;
};

absl::Status Run(const Sizes& sizes, const std::string& strategy) {
  GptConfig model_config;
  if (!google::protobuf::TextFormat::ParseFromString(sizes.model, &model_config)) {
    return absl::InternalError("a model is malformed");
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, CreateGpt(model_config));
  RunConfig config;
  config.set_batch(sizes.batch);
  config.set_sequence(sizes.sequence);
  config.mutable_optimizer()->set_kind("adamw");
  ASSIGN_OR_RETURN(const std::vector<Graph> graphs, RecordRun(*model, config, RunGraphs::kAll));
  const std::unique_ptr<Backend> backend = MakeCpuBackend(1);
  Cluster cluster = ClusterOfMachine("benchmark", MachineRates());
  cluster.set_ranks_per_host(8);
  PlanningFor planning_for{backend.get(), sizes.ranks, cluster,
                           SiteOnCluster(cluster, sizes.ranks)};
  const auto context = std::make_shared<const PlanningContext>(graphs, planning_for);
  ASSIGN_OR_RETURN(const PluginFile file, FindPlugin(strategy));
  ASSIGN_OR_RETURN(const Plugin plugin, Plugin::Load(file.path));
  ASSIGN_OR_RETURN(const OptionValues options, ReadOptions(plugin, {}));
  strategy::PlanRequest request;
  request.set_ranks(sizes.ranks);
  request.set_micro_batches(1);
  SetOptions(options, request);
  Plan plan;
  CompiledRun compiled;
  absl::Status status;
  const double planning = SecondsOf(
      [&]() -> absl::Status {
        ASSIGN_OR_RETURN(const StrategyPlan made, PlanWith(plugin, request, context, {}));
        plan = made.plan;
        ASSIGN_OR_RETURN(compiled, CompileRun(graphs, made.plan, *backend, sizes.ranks));
        *planning_for.settings.mutable_kernels() =
            DrawKernels(compiled.programs, *backend, /*seed=*/1);
        return EstimateWith(plugin, request, compiled, context, {}).status();
      },
      &status);
  RETURN_IF_ERROR(status);
  const PlanningContext with_kernels(graphs, planning_for);
  // The contexts have seen a candidate.
  RETURN_IF_ERROR(LoweringSeconds(*context, plan).status());
  RETURN_IF_ERROR(LoweringSeconds(with_kernels, plan).status());
  std::vector<double> by_rule(kRounds), chosen(kRounds);
  for (int round = 0; round < kRounds; ++round) {
    const Plan candidate = WithBlockChanged(plan, round);
    ASSIGN_OR_RETURN(by_rule[round], LoweringSeconds(*context, candidate));
    ASSIGN_OR_RETURN(chosen[round], LoweringSeconds(with_kernels, candidate));
  }
  absl::PrintF("%-12s %-8s %6d %12.2f s %12.1f ms %15.1f ms %13.1f ms\n", sizes.name, strategy,
               sizes.ranks, planning, 1e3 * MedianOf(by_rule), 1e3 * MedianOf(chosen),
               1e3 * PricingSeconds(*context, compiled));
  return absl::OkStatus();
}

}  // namespace
}  // namespace tessera

int main() {
  std::printf(
      "model        strategy  ranks  plan and estimate  one more candidate  with kernels chosen  "
      "pricing alone\n");
  const tessera::Sizes all[] = {
      {"GPT-2 124M", "layers: 12 channels: 768 heads: 12 vocabulary: 50257 context: 1024", 32, 1024,
       8},
      {"GPT-3 175B", "layers: 96 channels: 12288 heads: 96 vocabulary: 50257 context: 2048", 64,
       2048, 64},
      {"GPT-3 175B", "layers: 96 channels: 12288 heads: 96 vocabulary: 50257 context: 2048", 16384,
       2048, 16384}};
  for (const tessera::Sizes& sizes : all) {
    for (const char* strategy : {"ddp", "fsdp"}) {
      const absl::Status status = tessera::Run(sizes, strategy);
      if (status.ok()) continue;
      absl::FPrintF(stderr, "error: %s\n", std::string(status.message()));
      return 1;
    }
  }
  return 0;
}
