#include "tools/train/setup/plan_run.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/plan/choices/stage_passes.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/human_units.h"
#include "core/train/programs.h"
#include "tools/train/setup/decided_settings.h"
#include "tools/train/setup/plan_source.h"

namespace tessera {
namespace {

using Graphs = std::vector<Graph>;
using SharedGraphs = std::shared_ptr<const Graphs>;

// Planning a model of this many parameters takes a few seconds. A larger one that cannot fit is
// refused while it is recorded; for smaller ones the error names the smallest limit that could be
// met.
constexpr int kSoonPlanned = 20000;

// Returns which Graphs a command line needs.
RunGraphs GraphsOf(const CommandLine& line) {
  switch (line.mode) {
    case Mode::kEvaluate:
      return line.predictions.empty() ? RunGraphs::kEvaluate : RunGraphs::kEvaluateRows;
    case Mode::kPredict:
      return RunGraphs::kPredict;
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
  absl::StatusOr<Graphs> recorded = RecordRun(*configured.model, config, GraphsOf(line), limit);
  if (absl::IsResourceExhausted(recorded.status())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this model has more than ", kSoonPlanned, " parameters, and they take more than the ",
        "memory limit, ", FormatBytes(bound),
        ranks == 1 ? "" : absl::StrCat(" for each of ", ranks, " ranks"),
        ": choose a smaller model or a larger --memory_limit"));
  }
  return recorded;
}

// Returns the inputs for planning by a strategy. The arguments must outlive the result.
StrategyRun StrategyRunOf(const CommandLine& line, const ConfiguredRun& configured,
                          const RunConfig& config, const SharedGraphs& graphs) {
  Plan settings = PlanOfConfig(config, *graphs);
  *settings.mutable_kernels() = configured.kernels->Choices();  // for a strategy's candidates
  return {.config = config,
          .settings = std::move(settings),
          .graphs = graphs,
          .catalogue = configured.backend.get(),
          .ranks = configured.ranks.size,
          .record = [&line, &configured](
                        const RunConfig& other) { return Record(line, configured, other); },
          .priced = configured.priced,
          .prices = configured.prices,
          .memory_limit = configured.memory_bound.bytes,
          .open = OpenSettings(line, configured)};
}

// Makes the Plan for the recorded Graphs on this rank.
absl::StatusOr<PlannedRun> PlanGraphs(const CommandLine& line, const ConfiguredRun& configured,
                                      const RunConfig& config, Graphs graphs,
                                      std::vector<std::string>* notes) {
  PlannedRun planned;
  planned.graphs = std::make_shared<const Graphs>(std::move(graphs));
  const Checkpoint* const checkpoint = configured.checkpoint.get();
  const int ranks = configured.ranks.size;
  const StrategyRun run = StrategyRunOf(line, configured, config, planned.graphs);
  std::optional<Plan> open = configured.plan;
  ASSIGN_OR_RETURN(const std::string strategy, StrategyOfRun(line, checkpoint, ranks));
  if (!strategy.empty()) {
    ASSIGN_OR_RETURN(Plugin plugin, LoadStrategy(strategy, notes));
    planned.plugin = plugin.name();
    ASSIGN_OR_RETURN(planned.strategy, StrategySession::Open(std::move(plugin), line, run));
    ASSIGN_OR_RETURN(StrategyPlan made, planned.strategy->MakePlan());
    notes->insert(notes->end(), made.notes.begin(), made.notes.end());
    planned.explanation = std::move(made.explanation);
    open = std::move(made.plan);
  }
  absl::StatusOr<Plan> completed =
      PlanOfRun(line, run.settings, open, checkpoint, config.batch(), ranks, notes);
  RETURN_IF_ERROR(NamingPlugin(planned.plugin, completed.status()));
  planned.plan = *std::move(completed);
  if (!strategy.empty() && ListsPluginPasses(planned.plan)) {
    planned.pass_plugin = planned.strategy->plugin();
  }
  return planned;
}

// Returns a note that nothing decides the batch, which is open.
std::string NoteOfOpenBatch(const std::string& plugin, const RunConfig& config) {
  return absl::StrCat(plugin.empty() ? "no strategy decides"
                                     : absl::StrCat("strategy ", plugin, " does not decide"),
                      " the batch: it is the default, ", config.batch(),
                      "; --batch=N sets another");
}

// Closes the batch of the run, if it is open, and records the Graphs for it. Collective; errors are
// agreed ones.
absl::Status SettleBatch(const CommandLine& line, int64_t batch, ConfiguredRun& configured,
                         PlannedRun& planned) {
  if (!configured.config.search_batch()) return absl::OkStatus();
  const bool is_default = batch == configured.config.batch();
  RETURN_IF_ERROR(CloseBatch(batch, configured));
  if (is_default) return absl::OkStatus();
  absl::StatusOr<Graphs> recorded = Record(line, configured, configured.config);
  RETURN_IF_ERROR(configured.ranks.ranks->Agree(recorded.status()));
  planned.graphs = std::make_shared<const Graphs>(*std::move(recorded));
  absl::Status opens;
  if (planned.strategy.has_value()) {  // it estimates the cost at this batch
    absl::StatusOr<StrategySession> session =
        StrategySession::Open(planned.strategy->plugin(), line,
                              StrategyRunOf(line, configured, configured.config, planned.graphs));
    opens = session.status();
    if (session.ok()) planned.strategy = *std::move(session);
  }
  return configured.ranks.ranks->Agree(opens);
}

}  // namespace

absl::StatusOr<PlannedRun> PlanRun(const CommandLine& line, ConfiguredRun& configured,
                                   std::vector<std::string>* notes) {
  Ranks& ranks = *configured.ranks.ranks;
  absl::StatusOr<Graphs> recorded = Record(line, configured, configured.config);
  RETURN_IF_ERROR(ranks.Agree(recorded.status()));
  PlannedRun planned;
  // Rank 0 sends the batch, whether the Plan has passes of the plugin, and the plugin's name.
  ASSIGN_OR_RETURN(
      const std::string sent, ranks.BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
        ASSIGN_OR_RETURN(
            planned, PlanGraphs(line, configured, configured.config, *std::move(recorded), notes));
        const absl::StatusOr<int64_t> batch = BatchUnder(planned.plan, configured);
        RETURN_IF_ERROR(NamingPlugin(planned.plugin, batch.status()));
        if (configured.config.search_batch() && planned.plan.batch() == 0) {
          notes->push_back(NoteOfOpenBatch(planned.plugin, configured.config));
        }
        return absl::StrCat(*batch, " ", planned.pass_plugin.has_value(), " ", planned.plugin);
      }));
  const std::vector<std::string> words = absl::StrSplit(sent, ' ');
  int64_t batch = 0;
  absl::Status loads;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &batch)) {
    loads = absl::InternalError("rank 0 has sent a malformed description of its Plan");
  } else if (!ranks.is_first()) {
    planned.graphs = std::make_shared<const Graphs>(*std::move(recorded));
    planned.plugin = words[2];
    if (words[1] == "1") {
      absl::StatusOr<Plugin> plugin = LoadStrategy(
          line.strategy.empty() ? DefaultStrategy() : line.strategy, /*notes=*/nullptr);
      loads = plugin.status();
      if (plugin.ok()) planned.pass_plugin = *std::move(plugin);
    }
  }
  RETURN_IF_ERROR(ranks.Agree(loads));
  RETURN_IF_ERROR(SettleBatch(line, batch, configured, planned));
  return planned;
}

absl::StatusOr<PlannedRun> PlanAlone(const CommandLine& line, const ConfiguredRun& configured,
                                     const RunConfig& config) {
  std::vector<std::string> unused_notes;
  ASSIGN_OR_RETURN(Graphs graphs, Record(line, configured, config));
  return PlanGraphs(line, configured, config, std::move(graphs), &unused_notes);
}

absl::StatusOr<std::string> CheckPlanOfRun(const CommandLine& line, const ConfiguredRun& configured,
                                           const CompiledRun& compiled,
                                           std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(Graphs recorded, Record(line, configured, configured.config));
  const auto graphs = std::make_shared<const Graphs>(std::move(recorded));
  ASSIGN_OR_RETURN(Plugin plugin, LoadStrategy(line.strategy, notes));
  ASSIGN_OR_RETURN(
      const StrategySession session,
      StrategySession::Open(std::move(plugin), line,
                            StrategyRunOf(line, configured, configured.config, graphs)));
  return session.Check(compiled);
}

absl::Status NamingPlugin(const std::string& plugin, const absl::Status& status) {
  const bool is_of_plan = absl::IsInvalidArgument(status) || absl::IsInternal(status) ||
                          absl::IsNotFound(status) || absl::IsUnimplemented(status);
  if (plugin.empty() || !is_of_plan) return status;
  return WithMessage(
      status, absl::StrCat("strategy ", plugin, ": its Plan cannot be run: ", status.message()));
}

}  // namespace tessera
