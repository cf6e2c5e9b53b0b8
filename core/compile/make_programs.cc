#include "core/compile/make_programs.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/plan/check.h"
#include "core/plan/choices/pass_names.h"
#include "core/plan/rewrite/keep_logits.h"
#include "core/plan/rewrite/rewrite.h"
#include "core/plan/rewrite_and_lay_out.h"
#include "core/program/lower/lower.h"
#include "core/program/memory/assign_buffers.h"
#include "core/program/passes/communication.h"
#include "core/program/passes/offload.h"
#include "core/program/passes/pass.h"
#include "core/program/verify/verify_order.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

const PlanPart* FindPart(const Plan& plan, const std::string& graph) {
  if (plan.stages_size() == 0) return nullptr;
  for (const PlanPart& part : plan.stages(0).parts()) {
    if (part.graph() == graph) return &part;
  }
  return nullptr;
}

// Returns whether logits are kept, if the Plan leaves it open.
PlanPart::Logits DecideLogits(const Graph& graph) {
  return HasLogitsToKeep(graph) ? PlanPart::RECOMPUTED : PlanPart::LOGITS_UNSET;
}

// Runs the passes of the stage that decide when communication runs.
void RunStagePasses(const StagePasses& passes, Program& program) {
  if (passes.bucket_gradients.has_value()) BucketGradients(*passes.bucket_gradients, program);
  if (passes.prefetch_distance.has_value()) PrefetchGathers(*passes.prefetch_distance, program);
  if (passes.gathers_in_flight.has_value()) {
    LimitGathers(*passes.gathers_in_flight, program);
    LimitReductions(*passes.gathers_in_flight, program);
  }
  if (passes.prefetch_distance.has_value()) JoinGathers(program);
}

// Runs the passes of plugins, and checks what they return.
absl::Status RunPluginPasses(const StagePasses& passes, PluginPasses* plugin_passes,
                             Program& program) {
  for (const PassChoice::PluginPass& choice : passes.of_plugins) {
    if (plugin_passes == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("the Plan needs pass '", choice.pass(),
                                                     "' of the strategy plugin '", choice.name(),
                                                     "', and plugins are not loaded here"));
    }
    ASSIGN_OR_RETURN(program, plugin_passes->Run(choice, program));
    const absl::Status fits = VerifyOrder(program);
    if (!fits.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("pass '", choice.pass(), "' of strategy ",
                                                     choice.name(), ": what it made of ",
                                                     fits.message()));
    }
  }
  return absl::OkStatus();
}

// Runs all passes over a lowered Program, and assigns its buffers.
absl::StatusOr<Program> CompileProgram(Program program, const PlanPart& part,
                                       const StagePasses& passes, PluginPasses* plugin_passes,
                                       KernelChooser& chooser) {
  RemoveUnreadTransfers(program);
  RunStagePasses(passes, program);
  for (const std::string& name : part.passes()) {
    if (name == kNoPass) continue;
    ASSIGN_OR_RETURN(const Pass* pass, FindPass(name));
    RETURN_IF_ERROR(pass->run(chooser, program));
  }
  if (passes.offload.has_value()) {
    RETURN_IF_ERROR(OffloadToHost(*passes.offload, chooser, program));
  }
  RETURN_IF_ERROR(RunPluginPasses(passes, plugin_passes, program));
  RETURN_IF_ERROR(AssignBuffers(chooser, program));
  return program;
}

// Returns a Graph that has the inputs, the states and the blocks of another one, and nothing else.
Graph DeclarationsOf(const Graph& graph) {
  Graph declarations(graph.name());
  for (const GraphInput& input : graph.inputs()) {
    declarations.AppendInput(graph.value(input.value), input.batch_dim, input.origin);
  }
  for (const State& state : graph.states()) declarations.AppendState(state);
  for (const std::string& block : graph.blocks()) Scope(&declarations, block, Scope::kBlock);
  return declarations;
}

}  // namespace

absl::StatusOr<std::vector<PlanPart>> CompletedParts(const Fingerprints& graphs, const Plan& plan) {
  std::vector<PlanPart> parts;
  for (size_t i = 0; i < graphs.graphs().size(); ++i) {
    const Graph& graph = graphs.graphs()[i];
    PlanPart part;
    if (const PlanPart* planned = FindPart(plan, graph.name())) part = *planned;
    RETURN_IF_ERROR(CheckPlanPart(graphs, i, part));
    part.set_graph(graph.name());
    if (part.micro_batches() == 0) part.set_micro_batches(1);
    if (part.logits() == PlanPart::LOGITS_UNSET) part.set_logits(DecideLogits(graph));
    if (part.passes_size() == 0) {
      for (const std::string& pass : DefaultPasses()) part.add_passes(pass);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

absl::StatusOr<ProgramMaker> ProgramMaker::Create(DecidedRun run, const Stage& stage,
                                                  RedistributionFinder& finder,
                                                  KernelChooser& chooser,
                                                  PluginPasses* plugin_passes) {
  ProgramMaker maker(std::move(run), finder, chooser, plugin_passes);
  const DecidedRun& decided = maker.run_;
  ASSIGN_OR_RETURN(maker.storage_,
                   FlatStorage::Create(decided.decisions, decided.graphs, decided.mesh));
  ASSIGN_OR_RETURN(maker.passes_, ReadStagePasses(stage));
  return maker;
}

absl::StatusOr<Program> ProgramMaker::Make(size_t i, const GraphLayouts& layouts,
                                           const PlanPart& part, Graph* declarations) {
  std::optional<RewrittenGraph> rewritten;
  if (Rewrites(part, layouts, run_.mesh)) {
    ASSIGN_OR_RETURN(rewritten,
                     RewriteAndLayOut(run_.graphs[i], layouts, part, run_.mesh, run_.decisions));
    rewritten->graph.ForgetPaths();
  }
  const Graph& graph = rewritten.has_value() ? rewritten->graph : run_.graphs[i];
  const MeshDecisions mesh = {rewritten.has_value() ? rewritten->layouts : layouts, run_.decisions,
                              storage_, *finder_};
  ASSIGN_OR_RETURN(Program program, tessera::Lower(graph, mesh, *chooser_));
  if (declarations != nullptr) *declarations = DeclarationsOf(graph);
  // They are gone before the passes run, because a Graph takes more memory than its Program.
  rewritten.reset();
  if (!run_.rewritten.empty()) run_.rewritten[i] = Graph(run_.rewritten[i].name());
  return CompileProgram(std::move(program), part, passes_, plugin_passes_, *chooser_);
}

}  // namespace tessera
