#include "tools/train/setup/plan_run.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"
#include "tools/train/flags/config_sources.h"
#include "tools/train/setup/plan_source.h"

namespace tessera {
namespace {

using Graphs = std::vector<Graph>;

// Planning a model of this many parameters takes a few seconds. A larger one that cannot fit is
// refused while it is recorded; for smaller ones the error names the smallest limit that could be
// met.
constexpr int kSoonPlanned = 20000;

// Returns which Graphs a mode needs.
RunGraphs GraphsOf(Mode mode) {
  switch (mode) {
    case Mode::kEvaluate:
      return RunGraphs::kEvaluate;
    case Mode::kSample:
      return RunGraphs::kGenerate;
    case Mode::kTrain:
      break;
  }
  return RunGraphs::kAll;
}

// Records the Graphs of the run.
absl::StatusOr<Graphs> Record(const CommandLine& line, const ConfiguredRun& configured,
                              const RunConfig& config) {
  StateLimit limit;
  limit.count = kSoonPlanned;
  const int ranks = configured.ranks.size;
  // All ranks together hold each state at least once.
  const int64_t most = std::numeric_limits<int64_t>::max() / ranks;
  const int64_t bound = configured.memory_bound.bytes;
  if (bound > 0) limit.bytes = std::min(bound, most) * ranks;
  absl::StatusOr<Graphs> recorded =
      RecordRun(*configured.model, config, GraphsOf(line.mode), limit);
  if (absl::IsResourceExhausted(recorded.status())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this model has more than ", kSoonPlanned, " parameters, and they take more than the ",
        "memory limit, ", FormatBytes(bound),
        ranks == 1 ? "" : absl::StrCat(" for each of ", ranks, " ranks"),
        ": choose a smaller model or a larger --memory_limit"));
  }
  return recorded;
}

// Returns the settings that a strategy may decide: those that no flag sets. A resumed run keeps its
// own.
std::vector<strategy::PlanRequest::Setting> OpenSettings(const CommandLine& line,
                                                         const ConfiguredRun& configured) {
  std::vector<strategy::PlanRequest::Setting> open;
  if (configured.checkpoint != nullptr) return open;
  if (!SetsField(line, "micro_batches")) open.push_back(strategy::PlanRequest::MICRO_BATCHES);
  if (!SetsField(line, "recompute")) open.push_back(strategy::PlanRequest::RECOMPUTE);
  return open;
}

// Returns the settings of a run as a Plan, with the kernels of a strategy's candidates.
Plan SettingsOf(const ConfiguredRun& configured, const RunConfig& config, const Graphs& graphs) {
  Plan settings = PlanOfConfig(config, graphs);
  *settings.mutable_kernels() = configured.kernels->Choices();
  return settings;
}

// Opens a session with the plugin of the run's strategy. `line` and `configured` must outlive it.
absl::StatusOr<StrategySession> OpenSession(const CommandLine& line,
                                            const ConfiguredRun& configured,
                                            const RunConfig& config, const Plan& settings,
                                            const std::shared_ptr<const Graphs>& graphs,
                                            Plugin plugin) {
  return StrategySession::Open(
      std::move(plugin), line,
      {.config = config,
       .settings = settings,
       .graphs = graphs,
       .catalogue = configured.backend.get(),
       .ranks = configured.ranks.size,
       .record = [&line,
                  &configured](const RunConfig& other) { return Record(line, configured, other); },
       .priced = configured.priced,
       .prices = configured.prices,
       .memory_limit = configured.memory_bound.bytes,
       .open = OpenSettings(line, configured)});
}

// Makes the Plan for the recorded Graphs on this rank.
absl::StatusOr<PlannedRun> PlanGraphs(const CommandLine& line, const ConfiguredRun& configured,
                                      const RunConfig& config, Graphs graphs,
                                      std::vector<std::string>* notes) {
  PlannedRun planned;
  planned.graphs = std::make_shared<const Graphs>(std::move(graphs));
  const Checkpoint* const checkpoint = configured.checkpoint.get();
  const int ranks = configured.ranks.size;
  const Plan settings = SettingsOf(configured, config, *planned.graphs);
  std::optional<Plan> open = configured.plan;
  ASSIGN_OR_RETURN(const std::string strategy, StrategyOfRun(line, checkpoint, ranks));
  if (!strategy.empty()) {
    ASSIGN_OR_RETURN(Plugin plugin, LoadStrategy(strategy, notes));
    planned.plugin = plugin.name();
    ASSIGN_OR_RETURN(planned.strategy, OpenSession(line, configured, config, settings,
                                                   planned.graphs, std::move(plugin)));
    ASSIGN_OR_RETURN(StrategyPlan made, planned.strategy->MakePlan());
    notes->insert(notes->end(), made.notes.begin(), made.notes.end());
    planned.explanation = std::move(made.explanation);
    open = std::move(made.plan);
  }
  absl::StatusOr<Plan> completed = PlanOfRun(line, settings, open, checkpoint, ranks, notes);
  RETURN_IF_ERROR(NamingPlugin(planned.plugin, completed.status()));
  planned.plan = *std::move(completed);
  if (!strategy.empty() && ListsPluginPasses(planned.plan)) {
    planned.pass_plugin = planned.strategy->plugin();
  }
  return planned;
}

}  // namespace

absl::Status NamingPlugin(const std::string& plugin, const absl::Status& status) {
  const bool is_of_plan = absl::IsInvalidArgument(status) || absl::IsInternal(status) ||
                          absl::IsNotFound(status) || absl::IsUnimplemented(status);
  if (plugin.empty() || !is_of_plan) return status;
  return WithMessage(
      status, absl::StrCat("strategy ", plugin, ": its Plan cannot be run: ", status.message()));
}

void SetDecided(const CommandLine& line, const Plan& plan, ConfiguredRun& configured) {
  for (const PlanPart& part : plan.stages(0).parts()) {
    if (part.graph() != kTrain) continue;
    for (const strategy::PlanRequest::Setting setting : OpenSettings(line, configured)) {
      if (setting == strategy::PlanRequest::MICRO_BATCHES) {
        configured.config.set_micro_batches(part.micro_batches());
      } else {
        configured.config.set_recompute(
            part.recompute().empty() ? "none" : absl::StrJoin(part.recompute(), "|"));
      }
    }
  }
}

absl::StatusOr<PlannedRun> PlanRun(const CommandLine& line, const ConfiguredRun& configured,
                                   std::vector<std::string>* notes) {
  Ranks& ranks = *configured.ranks.ranks;
  absl::StatusOr<Graphs> recorded = Record(line, configured, configured.config);
  RETURN_IF_ERROR(ranks.Agree(recorded.status()));
  PlannedRun planned;
  ASSIGN_OR_RETURN(
      const std::string sent, ranks.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(
            planned, PlanGraphs(line, configured, configured.config, *std::move(recorded), notes));
        return absl::StrCat(planned.plugin, planned.pass_plugin.has_value() ? " passes" : "");
      }));
  absl::Status loads;
  if (!ranks.is_first()) {
    const std::pair<std::string, std::string> words = absl::StrSplit(sent, absl::MaxSplits(' ', 1));
    planned.graphs = std::make_shared<const Graphs>(*std::move(recorded));
    planned.plugin = words.first;
    if (!words.second.empty()) {
      absl::StatusOr<Plugin> plugin = LoadStrategy(
          line.strategy.empty() ? DefaultStrategy() : line.strategy, /*notes=*/nullptr);
      loads = plugin.status();
      if (plugin.ok()) planned.pass_plugin = *std::move(plugin);
    }
  }
  RETURN_IF_ERROR(ranks.Agree(loads));
  return planned;
}
absl::StatusOr<PlannedRun> PlanRunAlone(const CommandLine& line, const ConfiguredRun& configured,
                                        const RunConfig& config, std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(Graphs graphs, Record(line, configured, config));
  return PlanGraphs(line, configured, config, std::move(graphs), notes);
}

absl::StatusOr<std::string> CheckPlanOfRun(const CommandLine& line, const ConfiguredRun& configured,
                                           const CompiledRun& compiled,
                                           std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(Graphs recorded, Record(line, configured, configured.config));
  const auto graphs = std::make_shared<const Graphs>(std::move(recorded));
  ASSIGN_OR_RETURN(Plugin plugin, LoadStrategy(line.strategy, notes));
  ASSIGN_OR_RETURN(
      const StrategySession session,
      OpenSession(line, configured, configured.config,
                  SettingsOf(configured, configured.config, *graphs), graphs, std::move(plugin)));
  return session.Check(compiled);
}

}  // namespace tessera
