#include "tools/train/setup/run_strategy.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "core/status/status_macros.h"
#include "core/train/programs.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plan_with.h"
#include "strategies/host/planning_context.h"
#include "strategies/host/plugin.h"
#include "strategies/host/plugin_passes.h"
#include "tools/train/flags/run_config.h"
#include "tools/train/job/interrupt.h"
#include "tools/train/job/standard_output.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// The shortest time between lines of progress.
constexpr std::chrono::seconds kBetweenLines{1};

// Loads the plugin of --strategy. Adds a note of where it is from, unless it comes with the
// program; `notes` may be null.
absl::StatusOr<Plugin> LoadStrategy(const std::string& strategy,
                                    std::vector<std::string>* notes = nullptr) {
  ASSIGN_OR_RETURN(const PluginFile file, FindPlugin(strategy));
  ASSIGN_OR_RETURN(Plugin plugin, Plugin::Load(file.path));
  if (notes != nullptr && !file.comes_with_program) notes->push_back(OriginOf(plugin));
  return plugin;
}

strategy::PlanRequest RequestOf(const StrategyRun& run, const OptionValues& options,
                                const Plan& settings) {
  strategy::PlanRequest request;
  request.set_ranks(run.ranks);
  SetOptions(options, request);
  *request.mutable_cluster() = run.cluster;
  request.set_memory_limit_bytes(MemoryLimit(*run.config));
  if (settings.stages(0).has_precision()) {
    *request.mutable_precision() = settings.stages(0).precision();
  }
  for (const PlanPart& part : settings.stages(0).parts()) {
    if (part.graph() != kTrain) continue;
    request.set_micro_batches(part.micro_batches());
    *request.mutable_recompute() = part.recompute();
  }
  return request;
}

// Returns the limits of calls of a strategy. All lines that it logs are shown.
PluginCallOptions LimitsOfCalls(const CommandLine& line) {
  PluginCallOptions options;
  options.limit = std::chrono::milliseconds(static_cast<int64_t>(1e3 * line.strategy_seconds));
  options.stop = [] { return Interrupted() != 0; };
  options.log = [](const std::string& text) { PrintLine(text); };
  return options;
}

PluginCallOptions CallOptions(const CommandLine& line, const StrategyRun& run,
                              const std::string& name) {
  PluginCallOptions options = LimitsOfCalls(line);
  options.progress = [name, last = Clock::time_point()](double fraction,
                                                        const std::string& text) mutable {
    if (Clock::now() - last < kBetweenLines) return;
    last = Clock::now();
    const std::string share = fraction < 0 ? "" : absl::StrFormat("%.0f%%: ", 100 * fraction);
    PrintLine(absl::StrCat("strategy ", name, ": ", share, text));
  };
  options.record = [config = *run.config, record = run.record](int64_t batch, int64_t sequence) {
    RunConfig other = config;
    if (batch > 0) other.set_batch(batch);
    if (sequence > 0) other.set_sequence(sequence);
    return record(other);
  };
  return options;
}

// A plugin with the run that it plans or estimates.
struct Asked {
  Plugin plugin;
  strategy::PlanRequest request;
  std::shared_ptr<const PlanningContext> context;
};

absl::StatusOr<Asked> Ask(const std::string& strategy, const CommandLine& line,
                          const StrategyRun& run, std::vector<std::string>* notes = nullptr) {
  ASSIGN_OR_RETURN(Plugin plugin, LoadStrategy(strategy, notes));
  ASSIGN_OR_RETURN(const OptionValues options, ReadOptions(plugin, line.strategy_options));
  const Plan settings = MakePlan(*run.config, *run.graphs);
  return Asked{
      std::move(plugin), RequestOf(run, options, settings),
      std::make_shared<const PlanningContext>(
          *run.graphs, PlanningFor{run.catalogue, run.ranks, run.cluster, run.job, settings})};
}

absl::StatusOr<PlanByStrategy> PlanHere(const std::string& strategy, const CommandLine& line,
                                        const StrategyRun& run, std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(const Asked asked, Ask(strategy, line, run, notes));
  const std::string& name = asked.plugin.name();
  ASSIGN_OR_RETURN(StrategyPlan made, PlanWith(asked.plugin, asked.request, asked.context,
                                               CallOptions(line, run, name)));
  notes->insert(notes->end(), made.notes.begin(), made.notes.end());
  return PlanByStrategy{name, std::move(made.plan)};
}

}  // namespace

std::string DefaultStrategy() { return std::string(OwnStrategies().front()); }

absl::StatusOr<PlanByStrategy> PlanOfStrategy(const std::string& strategy, const CommandLine& line,
                                              const StrategyRun& run, Ranks& ranks,
                                              std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(const std::string sent, ranks.FromFirst([&]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const PlanByStrategy made, PlanHere(strategy, line, run, notes));
    return absl::StrCat(made.strategy, " ", made.plan.SerializeAsString());
  }));
  const std::pair<std::string, std::string> parts = absl::StrSplit(sent, absl::MaxSplits(' ', 1));
  PlanByStrategy made = {parts.first, {}};
  if (made.plan.ParseFromString(parts.second)) return made;
  return absl::InternalError("rank 0 has sent a malformed Plan");
}

absl::StatusOr<StepCost> EstimateOfStrategy(const std::string& strategy, const CommandLine& line,
                                            const StrategyRun& run, const CompiledRun& compiled,
                                            Ranks& ranks) {
  ASSIGN_OR_RETURN(const std::string bytes, ranks.FromFirst([&]() -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const Asked asked, Ask(strategy, line, run));
    ASSIGN_OR_RETURN(const StepCost cost,
                     EstimateWith(asked.plugin, asked.request, compiled, asked.context,
                                  CallOptions(line, run, asked.plugin.name())));
    if (cost.peak_bytes() != compiled.arena_bytes()) {
      return absl::InternalError(absl::StrCat(
          "strategy ", asked.plugin.name(), ": its estimate has ", cost.peak_bytes(),
          " bytes of memory at the peak, and its Plan needs ", compiled.arena_bytes()));
    }
    return cost.SerializeAsString();
  }));
  StepCost cost;
  if (cost.ParseFromString(bytes)) return cost;
  return absl::InternalError("rank 0 has sent a malformed estimate");
}

absl::StatusOr<std::unique_ptr<PluginPasses>> PassesOfPlugins(const Plan& plan,
                                                              const CommandLine& line,
                                                              const StrategyRun& run,
                                                              std::vector<std::string>* notes) {
  const auto is_of_plugin = [](const PassChoice& pass) { return pass.has_plugin(); };
  if (plan.stages_size() == 0 || absl::c_none_of(plan.stages(0).pass(), is_of_plugin)) {
    return nullptr;
  }
  auto passes =
      std::make_unique<LoadedPasses>(run.catalogue,
                                     std::make_shared<const PlanningContext>(
                                         *run.graphs, PlanningFor{run.catalogue, run.ranks, {}}),
                                     LimitsOfCalls(line), [notes](const std::string& origin) {
                                       if (notes != nullptr) notes->push_back(origin);
                                     });
  if (!line.strategy.empty()) {
    ASSIGN_OR_RETURN(const Plugin plugin, LoadStrategy(line.strategy));
    passes->Add(plugin);
  }
  return passes;
}

absl::Status CheckStrategyFlags(const std::string& strategy, const CommandLine& line,
                                Ranks& ranks) {
  return ranks
      .FromFirst([&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const Plugin plugin, LoadStrategy(strategy));
        RETURN_IF_ERROR(ReadOptions(plugin, line.strategy_options).status());
        return "";
      })
      .status();
}

absl::StatusOr<std::string> StrategyHelp(const std::string& strategy) {
  ASSIGN_OR_RETURN(const Plugin plugin, LoadStrategy(strategy));
  return PluginHelp(plugin);
}

}  // namespace tessera
