#include "tools/train/setup/prepare.h"

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/cost/cluster_prices.h"
#include "core/cost/kept_logits.h"
#include "core/cost/limits.h"
#include "core/cost/step_cost.h"
#include "core/model/language_model.h"
#include "core/status/status_macros.h"
#include "core/text/counted.h"
#include "core/train/data/text_dataset.h"
#include "core/train/programs.h"
#include "core/train/ranks/compile_ranks.h"
#include "core/train/state/load_state.h"
#include "core/train/state/save_state.h"
#include "google/protobuf/text_format.h"
#include "tools/train/setup/data_source.h"
#include "tools/train/setup/decided_settings.h"
#include "tools/train/setup/division_note.h"
#include "tools/train/setup/plan_run.h"
#include "tools/train/setup/strategy_session.h"

namespace tessera {
namespace {

using Graphs = std::vector<Graph>;
using SharedGraphs = std::shared_ptr<const Graphs>;

// Returns the part of a Plan for the training Graph if that has logits to keep, the Plan leaves
// open whether they are kept, and it pays; else nullptr.
PlanPart* FindOpenLogits(const CommandLine& line, const ConfiguredRun& configured,
                         const Graphs& graphs, Plan& plan) {
  const Cluster& cluster = configured.priced.cluster;
  const MachineRates rates = line.cluster.empty() ? kUsualRates
                                                  : MachineRates{cluster.f32_flops_per_second(),
                                                                 cluster.memory_bytes_per_second()};
  for (const Graph& graph : graphs) {
    if (graph.name() != kTrain || !KeepingLogitsPays(graph, rates)) continue;
    for (PlanPart& part : *plan.mutable_stages(0)->mutable_parts()) {
      if (part.graph() == kTrain && part.logits() == PlanPart::LOGITS_UNSET) return &part;
    }
  }
  return nullptr;
}

// Compiles a Plan by `compile` on rank 0, which decides what the Plan leaves to the host: whether
// logits are kept (if that pays and fits in memory), and kernels.
absl::StatusOr<CompiledRun> CompileFirst(
    const CommandLine& line, const ConfiguredRun& configured, const Graphs& graphs, Plan plan,
    const std::function<absl::StatusOr<CompiledRun>(const Plan& plan)>& compile, bool measures,
    std::vector<std::string>* notes) {
  const KernelSelection::Options options = {.measure = measures && !line.plan_only,
                                            .memory_limit = configured.memory_bound.bytes};
  PlanPart* const part = FindOpenLogits(line, configured, graphs, plan);
  if (part != nullptr) {
    part->set_logits(PlanPart::KEPT);
    std::vector<std::string> notes_if_kept;
    ASSIGN_OR_RETURN(CompiledRun kept,
                     configured.kernels->Compile(plan, compile, options, &notes_if_kept));
    const MemoryBound memory = MemoryOfRank(line, configured);
    if (memory.bytes <= 0 || memory.Bounded(kept) <= memory.bytes) {
      notes->insert(notes->end(), notes_if_kept.begin(), notes_if_kept.end());
      return kept;
    }
    part->clear_logits();
  }
  return configured.kernels->Compile(plan, compile, options, notes);
}

// Compiles on all ranks, if there are several, by rank 0's Plan. Errors are agreed ones. If
// `measures`, rank 0 measures kernels that it knows nothing about.
absl::StatusOr<CompiledRun> Compile(const CommandLine& line, const ConfiguredRun& configured,
                                    const SharedGraphs& graphs, const Plan& plan,
                                    const std::optional<Plugin>& pass_plugin, Ranks& ranks,
                                    bool measures, std::vector<std::string>* notes) {
  const KernelCatalogue& catalogue = *configured.backend;
  const int size = configured.ranks.size;
  const std::unique_ptr<PluginPasses> passes = PassesOfPlugins(
      line, pass_plugin.has_value() ? &*pass_plugin : nullptr, graphs, catalogue, size, notes);
  const auto compile = [&](const Plan& filled_in) {
    return CompileRun(*graphs, filled_in, catalogue, size, passes.get());
  };
  const auto compile_first = [&] {
    return CompileFirst(line, configured, *graphs, plan, compile, measures, notes);
  };
  if (ranks.size() == 1) return compile_first();
  return CompileTogether(*graphs, catalogue, ranks, passes.get(), compile_first);
}

// Returns the cost of a training step as estimated by the strategy, or by the host without one;
// nothing if nothing is priced. Collective.
absl::StatusOr<StepCost> EstimateOf(const ConfiguredRun& configured, const PlannedRun& planned,
                                    const CompiledRun& compiled) {
  const PricedCluster& priced = configured.priced;
  const Program* const train = compiled.FindProgram(kTrain);
  StepCost cost;
  if (priced.site.size() == 0 || train == nullptr) return cost;
  ASSIGN_OR_RETURN(const std::string bytes,
                   configured.ranks.ranks->BroadcastFromFirst([&]() -> absl::StatusOr<std::string> {
                     StepCost estimated;
                     if (planned.plugin.empty()) {
                       estimated = EstimateStep(*train, priced.cluster, priced.site,
                                                configured.prices.get());
                       estimated.set_peak_bytes(compiled.arena_bytes());
                     } else {
                       ASSIGN_OR_RETURN(estimated, planned.strategy->Estimate(compiled));
                     }
                     return estimated.SerializeAsString();
                   }));
  if (cost.ParseFromString(bytes)) return cost;
  return absl::InternalError("rank 0 has sent a malformed estimate");
}

// Compares the state of the checkpoint with that of the run. If they differ, the error names the
// fields that were overridden.
absl::Status CheckState(const ConfiguredRun& configured, const CompiledRun& compiled, Mode mode) {
  const Extra extra = mode == Mode::kTrain ? Extra::kRefuse : Extra::kLeaveOptimizer;
  absl::Status status =
      CheckFits(*configured.checkpoint, *configured.model, StatesOf(compiled), extra);
  if (status.ok() || configured.shape_changes.empty()) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("a run cannot be resumed with another shape of its state (",
                   absl::StrJoin(configured.shape_changes, ", "), "): ", status.message()));
}

// Checks that the compiled run can be saved, and that it fits the checkpoint that it resumes.
absl::Status CheckStates(const CommandLine& line, const ConfiguredRun& configured,
                         const CompiledRun& compiled) {
  // With --plan_only, a run may be planned with another shape than it has.
  if (line.plan_only) return absl::OkStatus();
  if (line.mode == Mode::kTrain) {
    std::string plan;
    google::protobuf::TextFormat::PrintToString(compiled.plan, &plan);
    RETURN_IF_ERROR(
        CheckSavable(StatesOf(compiled), compiled.programs.front().mesh, std::move(plan)));
  }
  return configured.checkpoint == nullptr ? absl::OkStatus()
                                          : CheckState(configured, compiled, line.mode);
}

// Returns notes of settings that work, and cost time or memory for nothing.
std::vector<std::string> WasteNotes(const CommandLine& line, const ConfiguredRun& configured,
                                    const std::string& plugin) {
  std::vector<std::string> notes;
  const LanguageModel* const language = configured.model->AsLanguageModel();
  const bool bytes = TokensAreBytes(configured.config);
  if (configured.checkpoint == nullptr && bytes && language != nullptr &&
      language->vocabulary() > kByteTokens) {
    notes.push_back(absl::StrCat("the tokens of the data are bytes: ", kByteTokens,
                                 " of the model's ", language->vocabulary(),
                                 " outputs are used; --set=model.vocabulary=", kByteTokens,
                                 " leaves out the others"));
  }
  const int threads = configured.backend->processor().threads;
  const int cores = configured.ranks.cores;
  if (threads > cores) {
    notes.push_back(absl::StrCat(Counted(threads, "thread"), " on ", Counted(cores, "core"),
                                 configured.ranks.of_host > 1 ? " for each rank" : "",
                                 ": they wait for each other; --threads=", cores, " is faster"));
  }
  if (configured.ranks.size == 1 && !line.strategy.empty()) {
    notes.push_back(
        absl::StrCat("strategy ", plugin, " has one rank, and so nothing to distribute: ",
                     line.plan_only ? "--ranks=N plans for N ranks" : "--nproc=N starts N ranks"));
  }
  return notes;
}

}  // namespace

absl::StatusOr<PreparedRun> PrepareRun(const CommandLine& line, ConfiguredRun& configured,
                                       std::vector<std::string>* notes) {
  Ranks& ranks = *configured.ranks.ranks;
  ASSIGN_OR_RETURN(const PlannedRun planned, PlanRun(line, configured, notes));
  // CheckMemoryLimit compares the limit with the peak, for a better message.
  absl::StatusOr<CompiledRun> compiled =
      Compile(line, configured, planned.graphs, planned.plan, planned.pass_plugin, ranks,
              /*measures=*/true, notes);
  RETURN_IF_ERROR(NamingPlugin(planned.plugin, compiled.status()));
  if (!planned.plugin.empty()) RETURN_IF_ERROR(SetDecided(line, compiled->plan, configured));
  WorkDivision division = DivisionOfStep(*planned.graphs, *compiled);
  std::string badly = DivisionNote(division, compiled->programs.front().mesh, configured.config);
  if (!badly.empty()) notes->push_back(std::move(badly));
  std::vector<Graph> dumped_graphs;
  if (line.dump.count("graph") > 0 && ranks.is_first()) {
    ASSIGN_OR_RETURN(dumped_graphs,
                     RewriteRun(*planned.graphs, planned.plan, configured.ranks.size));
  }
  ASSIGN_OR_RETURN(StepCost estimated, EstimateOf(configured, planned, *compiled));
  RETURN_IF_ERROR(ranks.Agree(CheckStates(line, configured, *compiled)));
  for (std::string& note : WasteNotes(line, configured, planned.plugin)) {
    notes->push_back(std::move(note));
  }
  notes->insert(notes->end(), compiled->notes.begin(), compiled->notes.end());
  return PreparedRun{.compiled = *std::move(compiled),
                     .dumped_graphs = std::move(dumped_graphs),
                     .plugin = planned.plugin,
                     .explanation = planned.explanation,
                     .pass_plugin = planned.pass_plugin,
                     .estimated = std::move(estimated),
                     .division = std::move(division)};
}

double EstimatedMfu(const ConfiguredRun& configured, const PreparedRun& prepared) {
  const double rate = FlopsPerSecond(configured.priced.cluster,
                                     MatmulDType(*prepared.compiled.FindProgram(kTrain)));
  return prepared.division.flops / prepared.estimated.step_seconds() /
         (rate * configured.ranks.size);
}

absl::StatusOr<CompiledRun> CompileAlone(const CommandLine& line, const ConfiguredRun& configured,
                                         const RunConfig& config) {
  Ranks alone;
  std::vector<std::string> unused_notes;
  ASSIGN_OR_RETURN(const PlannedRun planned, PlanAlone(line, configured, config));
  return Compile(line, configured, planned.graphs, planned.plan, planned.pass_plugin, alone,
                 /*measures=*/false, &unused_notes);
}

absl::StatusOr<CompiledRun> CompileByPlanOf(
    const CommandLine& line, const ConfiguredRun& configured, const PreparedRun& prepared,
    const std::shared_ptr<const std::vector<Graph>>& graphs) {
  Plan plan = prepared.compiled.plan;
  for (Stage& stage : *plan.mutable_stages()) {
    for (PlanPart& part : *stage.mutable_parts()) {
      const bool is_compiled = absl::c_any_of(
          *graphs, [&part](const Graph& graph) { return graph.name() == part.graph(); });
      if (is_compiled) part.clear_fingerprint();
    }
  }
  std::vector<std::string> unused_notes;
  return Compile(line, configured, graphs, plan, prepared.pass_plugin, *configured.ranks.ranks,
                 /*measures=*/false, &unused_notes);
}

}  // namespace tessera
