#include "tests/plans/random/strategy_plans.h"

#include <utility>

#include "core/status/status_macros.h"
#include "strategies/conformance/strategy_planner.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plugin.h"

namespace tessera {
namespace {

constexpr int kRanks = 4;

struct StrategyOptions {
  std::string strategy;
  std::vector<std::string> options;
  bool of_language = false;  // for models with an embedding alone
};

const std::vector<StrategyOptions>& AllOptions() {
  static const auto* const all = new std::vector<StrategyOptions>{
      {"ddp", {}},
      {"ddp", {"embedding=gathered", "bucket=1KiB"}, /*of_language=*/true},
      {"ddp", {"bucket=1KiB"}},
      {"fsdp", {}},
      {"fsdp", {"shard=gradients", "block=row"}},
      {"fsdp", {"shard=optimizer"}},
      {"fsdp", {"replicas=2", "accumulate=full"}},
      {"fsdp", {"reshard=2", "dtype=bf16"}},
      {"fsdp", {"reshard_root=yes", "units=size", "unit=1KiB", "reduce=bf16"}},
      {"fsdp", {"offload=all", "prefetch=2"}},
  };
  return *all;
}

}  // namespace

absl::StatusOr<std::vector<PlanCase>> StrategyPlans(const std::string& model,
                                                    const TrainingRun& run) {
  std::vector<PlanCase> plans;
  for (const StrategyOptions& each : AllOptions()) {
    if (each.of_language && run.model->AsLanguageModel() == nullptr) continue;
    ASSIGN_OR_RETURN(const PluginFile file, FindPlugin(each.strategy));
    ASSIGN_OR_RETURN(const Plugin plugin, Plugin::Load(file.path));
    ASSIGN_OR_RETURN(OptionValues values, ReadOptions(plugin, each.options));
    const StrategyPlanner planner(&plugin, std::move(values), &run);
    ASSIGN_OR_RETURN(Planned planned, planner.PlanFor(kRanks));
    PlanCase made;
    made.model = model;
    made.ranks = kRanks;
    made.plan = std::move(planned.plan);
    plans.push_back(std::move(made));
  }
  return plans;
}

}  // namespace tessera
