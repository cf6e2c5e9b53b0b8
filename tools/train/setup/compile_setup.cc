#include "tools/train/setup/compile_setup.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/cost/step_cost.h"
#include "core/status/status_macros.h"
#include "core/status/with_message.h"
#include "core/text/human_units.h"
#include "core/train/ranks/compile_ranks.h"
#include "core/train/ranks/memory_limit.h"
#include "tools/train/flags/run_config.h"
#include "tools/train/setup/division_note.h"
#include "tools/train/setup/run_plan.h"
#include "tools/train/setup/run_strategy.h"

namespace tessera {
namespace {

// Planning a model of this many parameters takes a few seconds. A larger one that cannot fit is
// refused while it is recorded; for smaller ones the error names the smallest limit that could be
// met.
constexpr int kSoonPlanned = 20000;

// Records the Graphs of the run.
absl::StatusOr<std::vector<Graph>> Record(const Setup& setup, const RunConfig& config,
                                          RunParts parts) {
  StateLimit limit;
  limit.count = kSoonPlanned;
  // All ranks together hold each state at least once.
  const int64_t most = std::numeric_limits<int64_t>::max() / setup.ranks.size;
  if (MemoryLimit(config) > 0) limit.bytes = std::min(MemoryLimit(config), most) * setup.ranks.size;
  absl::StatusOr<std::vector<Graph>> recorded = RecordRun(*setup.model, config, parts, limit);
  if (absl::IsResourceExhausted(recorded.status())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "this model has more than ", kSoonPlanned, " parameters, and they take more than the ",
        "memory limit, ", FormatBytes(MemoryLimit(config)),
        setup.ranks.size == 1 ? "" : absl::StrCat(" for each of ", setup.ranks.size, " ranks"),
        ": choose a smaller model or a larger --memory_limit"));
  }
  return recorded;
}

// A run that is ready to be compiled.
struct PlannedRun {
  std::vector<Graph> graphs;
  std::string strategy;  // "": a Plan of --plan, of the checkpoint, or for one rank
  std::string plugin;    // the name of the strategy's plugin
  Plan plan;
  std::unique_ptr<PluginPasses> passes;
};

// Returns an error of a Plan that a plugin has made with the plugin's name.
absl::Status NamingPlugin(const std::string& plugin, const absl::Status& status) {
  const bool is_of_plan = absl::IsInvalidArgument(status) || absl::IsInternal(status) ||
                          absl::IsNotFound(status) || absl::IsUnimplemented(status);
  if (plugin.empty() || !is_of_plan) return status;
  return WithMessage(
      status, absl::StrCat("strategy ", plugin, ": its Plan cannot be run: ", status.message()));
}

// Returns the run as a strategy needs it; `graphs` must outlive it.
StrategyRun AskedOf(const Setup& setup, const RunConfig& config, const std::vector<Graph>& graphs,
                    RunParts parts) {
  return {.config = &config,
          .graphs = &graphs,
          .catalogue = setup.backend.get(),
          .ranks = setup.ranks.size,
          .record = [&setup, parts](const RunConfig& other) { return Record(setup, other, parts); },
          .cluster = setup.cluster,
          .job = setup.site};
}

// Records the Graphs and makes the Plan of the run: of --plan, of a strategy, or the default one.
// `notes` must outlive the result. Collective.
absl::StatusOr<PlannedRun> PlanRun(const CommandLine& line, const Setup& setup,
                                   const RunConfig& config, std::vector<std::string>* notes) {
  Ranks& ranks = *setup.ranks.ranks;
  const int size = setup.ranks.size;
  PlannedRun planned;
  absl::StatusOr<std::vector<Graph>> recorded = Record(setup, config, PartsOf(line.mode));
  RETURN_IF_ERROR(ranks.Agree(recorded.status()));
  planned.graphs = *std::move(recorded);
  const StrategyRun run = AskedOf(setup, config, planned.graphs, PartsOf(line.mode));
  const auto make_plan = [&]() -> absl::Status {
    std::optional<Plan> plan = setup.plan;
    ASSIGN_OR_RETURN(planned.strategy, StrategyOfRun(line, setup.checkpoint.get(), size));
    if (!planned.strategy.empty()) {
      ASSIGN_OR_RETURN(PlanByStrategy made,
                       PlanOfStrategy(planned.strategy, line, run, ranks, notes));
      plan = std::move(made.plan);
      planned.plugin = std::move(made.strategy);
    }
    absl::StatusOr<Plan> completed =
        PlanOfRun(line, plan, setup.checkpoint.get(), config, planned.graphs, size, notes);
    RETURN_IF_ERROR(NamingPlugin(planned.plugin, completed.status()));
    planned.plan = *std::move(completed);
    ASSIGN_OR_RETURN(planned.passes, PassesOfPlugins(planned.plan, line, run, notes));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(ranks.Agree(make_plan()));
  return planned;
}

// Compiles on all ranks, if there are several. Errors are agreed ones.
absl::StatusOr<CompiledRun> CompileOnRanks(const Setup& setup, const std::vector<Graph>& graphs,
                                           const Plan& plan, PluginPasses* passes) {
  Ranks& ranks = *setup.ranks.ranks;
  if (ranks.size() > 1) return CompileTogether(graphs, plan, *setup.backend, ranks, passes);
  return CompileRun(graphs, plan, *setup.backend, setup.ranks.size, passes);
}

// Compiles the run for ranks that do not have to run.
absl::StatusOr<CompiledRun> CompileAlone(const PlannedRun& planned, const Setup& setup) {
  return CompileRun(planned.graphs, planned.plan, *setup.backend, setup.ranks.size,
                    planned.passes.get());
}

// Returns the cost of a training step as estimated by the strategy, or by the host without one;
// nothing if nothing is priced. Collective.
absl::StatusOr<StepCost> EstimateOf(const CommandLine& line, const Setup& setup,
                                    const PlannedRun& planned, const CompiledRun& compiled) {
  const Program* const train = compiled.FindProgram(kTrain);
  if (setup.site.size() == 0 || train == nullptr) return StepCost();
  if (!planned.strategy.empty()) {
    const StrategyRun run = AskedOf(setup, setup.config, planned.graphs, PartsOf(line.mode));
    return EstimateOfStrategy(planned.strategy, line, run, compiled, *setup.ranks.ranks);
  }
  StepCost cost = EstimateStep(*train, setup.cluster, setup.site);
  cost.set_peak_bytes(compiled.arena_bytes());
  return cost;
}

// Fields of the configuration that may make a run need less memory.
struct MemorySaving {
  std::string recompute;
  int64_t micro_batches = 1;
  int64_t peak = 0;  // bytes of a rank with them; 0: not planned
};

// Returns the planned peak of the run with these fields; 0 if it cannot be planned so.
// Collective.
int64_t PeakWith(const MemorySaving& saving, CommandLine line, const Setup& setup) {
  RunConfig config = setup.config;
  config.set_recompute(saving.recompute);
  config.set_micro_batches(saving.micro_batches);
  // As flags they override a checkpoint's Plan.
  line.settings.push_back({"--recompute", "recompute", saving.recompute});
  line.settings.push_back({"--micro_batches", "micro_batches", absl::StrCat(saving.micro_batches)});
  std::vector<std::string> unused_notes;
  const absl::StatusOr<PlannedRun> planned = PlanRun(line, setup, config, &unused_notes);
  if (!planned.ok()) return 0;
  const absl::StatusOr<CompiledRun> compiled = CompileAlone(*planned, setup);
  return compiled.ok() ? compiled->arena_bytes() : 0;
}

// Returns the fewest micro-batches with which the run fits, or else those with which it needs
// least; a peak of 0 if none save memory. Collective.
MemorySaving WithMicroBatches(const std::string& recompute, const CommandLine& line,
                              const Setup& setup) {
  // More would take long to plan, and save little more.
  constexpr int64_t kMost = 64;
  constexpr double kLeastGain = 0.02;
  MemorySaving best;
  double before = static_cast<double>(setup.compiled.arena_bytes());
  for (int64_t count = 2 * setup.config.micro_batches(); count <= kMost; count *= 2) {
    if (setup.config.batch() % count != 0) break;
    MemorySaving saving = {recompute, count};
    saving.peak = PeakWith(saving, line, setup);
    if (saving.peak == 0 || static_cast<double>(saving.peak) > (1 - kLeastGain) * before) break;
    best = saving;
    before = static_cast<double>(saving.peak);
    if (saving.peak <= MemoryLimit(setup.config)) break;
  }
  return best;
}

// Returns how the run would need less memory, as the end of the error that it needs too much: by
// recomputation, by micro-batches, or by both if neither suffices. Collective.
std::string MemorySavings(const CommandLine& line, const Setup& setup) {
  const RunConfig& config = setup.config;
  const int64_t limit = MemoryLimit(config);
  int64_t least = setup.compiled.arena_bytes();
  std::string text;
  // Adds a saving that saves more than those before. Returns whether the run fits with it.
  const auto add = [&](const MemorySaving& saving) {
    if (saving.peak == 0 || saving.peak >= least) return false;
    least = saving.peak;
    std::string flags;
    if (saving.recompute != config.recompute()) flags = " --recompute=block";
    if (saving.micro_batches != config.micro_batches()) {
      absl::StrAppend(&flags, " --micro_batches=", saving.micro_batches);
    }
    const bool fits = least <= limit;
    absl::StrAppend(&text, fits ? "; it fits with" : ", or with", flags, fits ? ", in " : " ",
                    fits ? FormatBytes(least) : SmallestLimit(least));
    return fits;
  };
  const bool recomputes = config.recompute() != "none";
  if (!recomputes) {
    MemorySaving recomputing = {"block", config.micro_batches()};
    recomputing.peak = PeakWith(recomputing, line, setup);
    if (add(recomputing)) return text;
  }
  if (setup.compiled.state_bytes > limit) return text;  // state is not saved by either
  if (add(WithMicroBatches(config.recompute(), line, setup)) || recomputes) return text;
  add(WithMicroBatches("block", line, setup));
  return text;
}

}  // namespace

RunParts PartsOf(Mode mode) {
  switch (mode) {
    case Mode::kEvaluate:
      return RunParts::kEvaluate;
    case Mode::kSample:
      return RunParts::kGenerate;
    case Mode::kTrain:
      break;
  }
  return RunParts::kAll;
}

absl::Status CompileSetup(const CommandLine& line, Setup* setup) {
  ASSIGN_OR_RETURN(const PlannedRun planned, PlanRun(line, *setup, setup->config, &setup->notes));
  // CheckMemoryLimit compares the limit with the peak, for a better message.
  absl::StatusOr<CompiledRun> compiled =
      CompileOnRanks(*setup, planned.graphs, planned.plan, planned.passes.get());
  RETURN_IF_ERROR(NamingPlugin(planned.plugin, compiled.status()));
  setup->compiled = *std::move(compiled);
  setup->plugin = planned.plugin;
  std::string note = DivisionNote(planned.graphs, setup->compiled, setup->config);
  if (!note.empty()) setup->notes.push_back(std::move(note));
  if (line.dump.count("graph") > 0) {
    ASSIGN_OR_RETURN(setup->dumped_graphs,
                     RewriteRun(planned.graphs, planned.plan, setup->ranks.size));
  }
  ASSIGN_OR_RETURN(setup->estimated, EstimateOf(line, *setup, planned, setup->compiled));
  return absl::OkStatus();
}

absl::StatusOr<CompiledRun> CompileByPlanOf(const CommandLine& line, const Setup& setup,
                                            const std::vector<Graph>& graphs) {
  Plan plan = setup.compiled.plan;
  for (Stage& stage : *plan.mutable_stages()) {
    for (PlanPart& part : *stage.mutable_parts()) {
      const bool is_compiled = absl::c_any_of(
          graphs, [&part](const Graph& graph) { return graph.name() == part.graph(); });
      if (is_compiled) part.clear_fingerprint();
    }
  }
  const StrategyRun run = AskedOf(setup, setup.config, graphs, PartsOf(line.mode));
  absl::StatusOr<std::unique_ptr<PluginPasses>> passes =
      PassesOfPlugins(plan, line, run, /*notes=*/nullptr);
  RETURN_IF_ERROR(setup.ranks.ranks->Agree(passes.status()));
  return CompileOnRanks(setup, graphs, plan, passes->get());
}

absl::Status CheckMemoryLimit(const Setup& setup, const CommandLine& line) {
  const int64_t peak = setup.compiled.arena_bytes();
  absl::Status fits = CheckMemoryLimit(peak, MemoryLimit(setup.config), setup.config.memory_limit(),
                                       setup.ranks.size == 1 ? "the run" : "each rank");
  if (fits.ok()) return fits;
  std::string message(fits.message());
  if (PartsOf(line.mode) == RunParts::kAll && !setup.plan.has_value()) {
    message += MemorySavings(line, setup);
  }
  // All ranks have compiled the same Programs.
  return Agreed(absl::ResourceExhaustedError(message));
}

}  // namespace tessera
