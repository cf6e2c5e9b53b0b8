#include "tools/train/compile_setup.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "core/text/human_units.h"
#include "core/train/compile_ranks.h"
#include "core/train/memory_limit.h"
#include "tools/train/run_config.h"
#include "tools/train/run_plan.h"
#include "tools/train/run_strategy.h"

namespace tessera {
namespace {

// Planning a model of so many parameters takes a few seconds. A larger one that cannot fit is
// refused while it is recorded; for others the error names the smallest limit that could be met.
constexpr int kSoonPlanned = 20000;

// Records the Graphs of the run.
absl::StatusOr<std::vector<Graph>> Record(const Setup& setup, const RunConfig& config,
                                          RunParts parts) {
  StateLimit limit;
  limit.count = kSoonPlanned;
  // A rank of several may hold a part of the state only.
  if (setup.ranks.size == 1 && MemoryLimit(config) > 0) limit.bytes = MemoryLimit(config);
  absl::StatusOr<std::vector<Graph>> recorded = RecordRun(*setup.model, config, parts, limit);
  if (absl::IsResourceExhausted(recorded.status())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the first ", kSoonPlanned,
        " parameters of this model alone take more than the memory limit, ",
        FormatBytes(limit.bytes), ": choose a smaller model or a larger --memory_limit"));
  }
  return recorded;
}

// Returns the Plan of the run: of --plan, of a strategy, or the default one. Collective.
absl::StatusOr<Plan> MakeRunPlan(const CommandLine& line, const Setup& setup,
                                 const RunConfig& config, const std::vector<Graph>& graphs,
                                 std::vector<std::string>* notes) {
  const int size = setup.ranks.size;
  std::optional<Plan> plan = setup.plan;
  ASSIGN_OR_RETURN(const std::string strategy, StrategyOfRun(line, setup.checkpoint.get(), size));
  if (!strategy.empty()) {
    const auto record = [&line, &setup](const RunConfig& other) {
      return Record(setup, other, PartsOf(line.mode));
    };
    const StrategyRun run = {&config, &graphs,       setup.backend.get(), size,
                             record,  setup.cluster, setup.site};
    ASSIGN_OR_RETURN(plan,
                     PlanOfStrategy(strategy, line, setup.argv0, run, *setup.ranks.ranks, notes));
  }
  return PlanOfRun(line, plan, setup.checkpoint.get(), config, graphs, size, notes);
}

// Compiles the run for ranks that do not have to run.
absl::StatusOr<CompiledRun> CompileAlone(const CommandLine& line, const Setup& setup,
                                         const RunConfig& config, std::vector<std::string>* notes) {
  ASSIGN_OR_RETURN(std::vector<Graph> graphs, Record(setup, config, PartsOf(line.mode)));
  ASSIGN_OR_RETURN(const Plan plan, MakeRunPlan(line, setup, config, graphs, notes));
  const StrategyRun run = {&config, &graphs,       setup.backend.get(), setup.ranks.size,
                           nullptr, setup.cluster, setup.site};
  ASSIGN_OR_RETURN(const auto passes, PassesOfPlugins(plan, line, setup.argv0, run));
  return CompileRun(std::move(graphs), plan, *setup.backend, setup.ranks.size, passes.get());
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

absl::StatusOr<CompiledRun> CompileSetup(const CommandLine& line, Setup* setup) {
  Ranks& ranks = *setup->ranks.ranks;
  // CheckMemoryLimit compares the limit with the peak, for a better message.
  if (ranks.size() == 1) return CompileAlone(line, *setup, setup->config, &setup->notes);
  absl::StatusOr<std::vector<Graph>> recorded = Record(*setup, setup->config, PartsOf(line.mode));
  RETURN_IF_ERROR(ranks.Agree(recorded.status()));
  std::vector<Graph> graphs = *std::move(recorded);
  const absl::StatusOr<Plan> plan = MakeRunPlan(line, *setup, setup->config, graphs, &setup->notes);
  RETURN_IF_ERROR(ranks.Agree(plan.status()));
  const StrategyRun run = {&setup->config, &graphs,        setup->backend.get(), ranks.size(),
                           nullptr,        setup->cluster, setup->site};
  const auto passes = PassesOfPlugins(*plan, line, setup->argv0, run);
  RETURN_IF_ERROR(ranks.Agree(passes.status()));
  return CompileTogether(std::move(graphs), *plan, *setup->backend, ranks, passes->get());
}

absl::Status CheckMemoryLimit(const Setup& setup, const CommandLine& line) {
  const int64_t peak = setup.compiled.arena_bytes();
  const absl::Status fits =
      CheckMemoryLimit(peak, MemoryLimit(setup.config), setup.config.memory_limit(),
                       setup.ranks.size == 1 ? "the run" : "each rank");
  if (fits.ok()) return fits;
  std::string message(fits.message());
  if (PartsOf(line.mode) == RunParts::kAll && setup.config.recompute() == "none" &&
      !setup.plan.has_value()) {
    RunConfig recomputing = setup.config;
    recomputing.set_recompute("block");
    std::vector<std::string> unused_notes;
    const absl::StatusOr<CompiledRun> compiled =
        CompileAlone(line, setup, recomputing, &unused_notes);
    if (compiled.ok() && compiled->arena_bytes() < peak) {
      absl::StrAppend(&message, ", or with --recompute=block ",
                      SmallestLimit(compiled->arena_bytes()));
    }
  }
  // All ranks have compiled the same Programs.
  return Agreed(absl::ResourceExhaustedError(message));
}

}  // namespace tessera
