#include "tools/train/setup/strategy_session.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/text/text_stream.h"
#include "core/train/programs.h"
#include "strategies/host/find_plugin.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plugin_passes.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/rank/interrupt.h"
#include "tools/train/rank/standard_output.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

// The shortest time between lines of progress, and before the first one.
constexpr std::chrono::seconds kBetweenLines{1};

// Returns the request for a Plan that is passed to the plugin.
strategy::PlanRequest RequestOf(const StrategyRun& run, const OptionValues& options) {
  strategy::PlanRequest request;
  request.set_ranks(run.ranks);
  SetOptions(options, request);
  *request.mutable_cluster() = run.priced.cluster;
  request.set_memory_limit_bytes(run.memory_limit);
  request.set_batch(run.config.batch());
  for (const strategy::PlanRequest::Setting setting : run.open) request.add_open(setting);
  const Stage& settings = run.settings.stages(0);
  if (settings.has_precision()) {
    *request.mutable_precision() = settings.precision();
  }
  for (const PlanPart& part : settings.parts()) {
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
  options.stop = [] { return CaughtSignal() != 0; };
  options.log = [](const std::string& text) { PrintLine(text); };
  return options;
}

// Returns "strategy osdp: 40%: 7 Plans are lowered; 1.50 s left" after so many seconds of a call.
std::string ProgressLine(const std::string& name, double fraction, const std::string& text,
                         double seconds) {
  std::string line = absl::StrCat("strategy ", name, ": ");
  if (fraction >= 0 && fraction <= 1) absl::StrAppendFormat(&line, "%.0f%%: ", 100 * fraction);
  absl::StrAppend(&line, text);
  if (fraction > 0 && fraction < 1) {
    absl::StrAppend(&line, "; ", FormatSeconds(seconds / fraction * (1 - fraction)), " left");
  }
  return line;
}

}  // namespace

std::string DefaultStrategy() { return std::string(BundledStrategies().front()); }

absl::StatusOr<Plugin> LoadStrategy(const std::string& strategy, std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(const PluginFile file, FindPlugin(strategy));
  ASSIGN_OR_RETURN(Plugin plugin, Plugin::Load(file.path));
  if (notes != nullptr && !file.comes_with_program) notes->push_back(OriginOf(plugin));
  return plugin;
}

absl::StatusOr<StrategySession> StrategySession::Open(Plugin plugin, const CommandLine& line,
                                                      const StrategyRun& run) {
  ASSIGN_OR_RETURN(const OptionValues values, ReadOptions(plugin, line.strategy_options));
  strategy::PlanRequest request = RequestOf(run, values);
  auto context = std::make_shared<const PlanningContext>(
      run.graphs, PlanningFor{run.catalogue, run.ranks, run.priced.cluster, run.priced.site,
                              run.settings, run.prices});
  PluginCallOptions options = LimitsOfCalls(line);
  options.record = [config = run.config, record = run.record](int64_t batch, int64_t sequence) {
    RunConfig other = config;
    if (batch > 0) other.set_batch(batch);
    if (sequence > 0) other.set_sequence(sequence);
    return record(other);
  };
  return StrategySession(std::move(plugin), std::move(request), std::move(context),
                         std::move(options));
}

PluginCallOptions StrategySession::CallOptions() const {
  PluginCallOptions options = options_;
  options.between_progress = kBetweenLines;
  options.progress = [name = plugin_.name(), begin = Clock::now()](double fraction,
                                                                   const std::string& text) {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    absl::FPrintF(stderr, "%s\n", Printable(ProgressLine(name, fraction, text, seconds)));
  };
  return options;
}

absl::StatusOr<StrategyPlan> StrategySession::MakePlan() const {
  return PlanWith(plugin_, request_, context_, CallOptions());
}

absl::StatusOr<StepCost> StrategySession::Estimate(const CompiledRun& compiled) const {
  ASSIGN_OR_RETURN(StepCost cost,
                   EstimateWith(plugin_, request_, compiled, context_, CallOptions()));
  if (cost.peak_bytes() == compiled.arena_bytes()) return cost;
  return absl::InternalError(
      absl::StrCat("strategy ", plugin_.name(), ": its estimate has ", cost.peak_bytes(),
                   " bytes of memory at the peak, and its Plan needs ", compiled.arena_bytes()));
}

absl::StatusOr<std::string> StrategySession::Check(const CompiledRun& compiled) const {
  return CheckWith(plugin_, request_, compiled, context_, CallOptions());
}

std::unique_ptr<PluginPasses> PassesOfPlugins(const CommandLine& line, const Plugin* strategy,
                                              std::shared_ptr<const std::vector<Graph>> graphs,
                                              const KernelCatalogue& catalogue, int ranks,
                                              std::vector<std::string>* notes) {
  auto passes = std::make_unique<LoadedPasses>(
      &catalogue,
      std::make_shared<const PlanningContext>(std::move(graphs), PlanningFor{&catalogue, ranks}),
      LimitsOfCalls(line), [notes](const std::string& origin) { notes->push_back(origin); });
  if (strategy != nullptr) passes->Add(*strategy);
  return passes;
}

absl::Status CheckStrategyFlags(const std::string& strategy, const CommandLine& line,
                                Ranks& ranks) {
  return ranks
      .BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(const Plugin plugin, LoadStrategy(strategy, /*notes=*/nullptr));
        RETURN_IF_ERROR(ReadOptions(plugin, line.strategy_options).status());
        return "";
      })
      .status();
}

absl::StatusOr<std::string> StrategyHelp(const std::string& strategy) {
  ASSIGN_OR_RETURN(const Plugin plugin, LoadStrategy(strategy, /*notes=*/nullptr));
  return PluginHelp(plugin);
}

}  // namespace tessera
