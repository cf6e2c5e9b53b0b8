#include "core/compile/compile.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/redistribution/choice_prices.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/plan/check.h"
#include "core/plan/choices/pass_names.h"
#include "core/plan/choices/stage_passes.h"
#include "core/plan/complete.h"
#include "core/plan/rewrite/keep_logits.h"
#include "core/plan/rewrite_and_lay_out.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/lower/lower.h"
#include "core/program/memory/assign_buffers.h"
#include "core/program/memory/memory_plan.h"
#include "core/program/passes/communication.h"
#include "core/program/passes/offload.h"
#include "core/program/passes/pass.h"
#include "core/program/verify/verify.h"
#include "core/program/verify/verify_order.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

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

// Replaces the parts of a Plan by complete ones: one for every Graph, in their order, and no other.
absl::Status CompleteParts(absl::Span<const Graph> graphs, Plan& plan) {
  plan.set_format(kPlanFormat);
  Stage& stage = plan.stages_size() > 0 ? *plan.mutable_stages(0) : *plan.add_stages();
  std::vector<PlanPart> parts;
  for (const Graph& graph : graphs) {
    PlanPart part;
    if (const PlanPart* planned = FindPart(plan, graph.name())) part = *planned;
    RETURN_IF_ERROR(CheckPlanPart(graph, part));
    part.set_graph(graph.name());
    if (part.micro_batches() == 0) part.set_micro_batches(1);
    if (part.logits() == PlanPart::LOGITS_UNSET) part.set_logits(DecideLogits(graph));
    if (part.passes_size() == 0) {
      for (const std::string& pass : DefaultPasses()) part.add_passes(pass);
    }
    parts.push_back(std::move(part));
  }
  stage.clear_parts();
  for (PlanPart& part : parts) *stage.add_parts() = std::move(part);
  return absl::OkStatus();
}

// Sets the fingerprints of parts that have none. The Plan must have the parts of `graphs`.
void AddFingerprints(absl::Span<const Graph> graphs, Plan& plan) {
  for (size_t i = 0; i < graphs.size(); ++i) {
    PlanPart& part = *plan.mutable_stages(0)->mutable_parts(static_cast<int>(i));
    if (part.fingerprint().empty()) part.set_fingerprint(graphs[i].Fingerprint());
  }
}

// Returns a note that names the parts for Graphs that the run does not have; "" if there are none.
// A part with a fingerprint is of a completed Plan, which may be replayed for some of its Graphs.
std::string NoteOfUnusedParts(const Plan& plan, absl::Span<const Graph> graphs) {
  std::vector<std::string> names, unused;
  for (const Graph& graph : graphs) names.push_back(graph.name());
  for (const Stage& stage : plan.stages()) {
    for (const PlanPart& part : stage.parts()) {
      if (!part.fingerprint().empty() || absl::c_linear_search(names, part.graph())) continue;
      unused.push_back(Quote(part.graph()));
    }
  }
  if (unused.empty()) return "";
  return absl::StrCat(
      "the plan has parts for graphs that this run does not have, which are not "
      "used: ",
      absl::StrJoin(unused, ", "), "; the run has ", absl::StrJoin(names, ", "));
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

// A Graph as the Plan rewrote it, without operators, and its Program before the passes.
struct LoweredGraph {
  Graph declarations;
  Program program;
};

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

// Rewrites Graph i of a run, which is moved away.
absl::StatusOr<RewrittenGraph> TakeRewritten(CompletedRun& run, size_t i, const PlanPart& part) {
  return RewriteAndLayOut(std::move(run.graphs[i]), std::move(run.layouts[i]), part, run.mesh,
                          run.decisions);
}

// Rewrites and lowers the Graphs of a run.
class RunLowering {
 public:
  static absl::StatusOr<RunLowering> Create(CompletedRun run) {
    RunLowering lowering;
    ASSIGN_OR_RETURN(lowering.storage_, FlatStorage::Create(run.decisions, run.graphs, run.mesh));
    lowering.finder_ = std::make_unique<RedistributionFinder>(run.mesh, &ChoicePrices());
    lowering.run_ = std::move(run);
    return lowering;
  }

  // Rewrites and lowers Graph i, which is moved away. Its rewritten form is gone before the passes
  // run. May be called once for each Graph.
  absl::StatusOr<LoweredGraph> Lower(size_t i, const PlanPart& part, KernelChooser& chooser) {
    ASSIGN_OR_RETURN(RewrittenGraph rewritten, TakeRewritten(run_, i, part));
    rewritten.graph.ForgetPaths();
    const MeshDecisions mesh = {rewritten.layouts, run_.decisions, storage_, *finder_};
    ASSIGN_OR_RETURN(Program program, tessera::Lower(rewritten.graph, mesh, chooser));
    return LoweredGraph{DeclarationsOf(rewritten.graph), std::move(program)};
  }

 private:
  CompletedRun run_;
  FlatStorage storage_;
  std::unique_ptr<RedistributionFinder> finder_;
};

// Returns the kernels that the Programs use, sorted by request.
KernelChoices ChoicesOf(const std::vector<Program>& programs, const KernelCatalogue& catalogue) {
  const auto to_string = [](absl::string_view text) {
    return std::string(text.data(), text.size());
  };
  std::map<std::string, std::string> chosen;
  for (const Program& program : programs) {
    for (const PlannedKernel& planned : program.kernels) {
      chosen[planned.key] = to_string(planned.kernel->name());
    }
  }
  const Processor processor = catalogue.processor();
  KernelChoices choices;
  choices.set_backend(to_string(catalogue.name()));
  choices.set_processor(processor.name);
  choices.set_threads(processor.threads);
  for (const auto& [request, kernel] : chosen) {
    KernelChoice* choice = choices.add_choices();
    choice->set_request(request);
    choice->set_kernel(kernel);
  }
  return choices;
}

}  // namespace

const Program* CompiledRun::FindProgram(absl::string_view name) const {
  for (const Program& program : programs) {
    if (program.name == name) return &program;
  }
  return nullptr;
}

namespace {

// Lowers the Graphs of a run, adds their Programs to `run`, and plans their memory. run->plan must
// have all parts.
absl::Status MakePrograms(CompletedRun completed, KernelChooser& chooser,
                          PluginPasses* plugin_passes, CompiledRun* run) {
  const Stage& stage = run->plan.stages(0);
  const size_t num_graphs = completed.graphs.size();
  ASSIGN_OR_RETURN(RunLowering lowering, RunLowering::Create(std::move(completed)));
  ASSIGN_OR_RETURN(const StagePasses passes, ReadStagePasses(stage));
  StateLayout states;
  for (size_t i = 0; i < num_graphs; ++i) {
    const PlanPart& part = stage.parts(static_cast<int>(i));
    ASSIGN_OR_RETURN(LoweredGraph lowered, lowering.Lower(i, part, chooser));
    ASSIGN_OR_RETURN(Program program, CompileProgram(std::move(lowered.program), part, passes,
                                                     plugin_passes, chooser));
    RETURN_IF_ERROR(states.Add(program));
    run->graphs.push_back(std::move(lowered.declarations));
    run->programs.push_back(std::move(program));
  }
  run->state_bytes = states.bytes().total();
  for (Program& program : run->programs) {
    PlanMemory(states, program);
    run->arenas.RaiseTo(program.arenas);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CompiledRun> CompileRun(const std::vector<Graph>& graphs, const Plan& plan,
                                       const KernelCatalogue& catalogue, int ranks,
                                       PluginPasses* plugin_passes) {
  CompiledRun run;
  ASSIGN_OR_RETURN(CompletedRun completed, CompleteRun(plan, graphs, ranks));
  ASSIGN_OR_RETURN(run.plan, ListDecisions(plan, graphs, completed));
  RETURN_IF_ERROR(CompleteParts(graphs, run.plan));
  AddFingerprints(graphs, run.plan);
  if (std::string note = NoteOfUnusedParts(plan, graphs); !note.empty()) {
    run.notes.push_back(std::move(note));
  }
  KernelChooser chooser(&catalogue, plan.kernels());
  RETURN_IF_ERROR(MakePrograms(std::move(completed), chooser, plugin_passes, &run));
  for (const Program& program : run.programs) RETURN_IF_ERROR(VerifyProgram(program));
  *run.plan.mutable_kernels() = ChoicesOf(run.programs, catalogue);
  if (!chooser.note().empty()) run.notes.push_back(chooser.note());
  return run;
}

absl::StatusOr<std::vector<Graph>> RewriteRun(const std::vector<Graph>& graphs, const Plan& plan,
                                              int ranks) {
  ASSIGN_OR_RETURN(CompletedRun completed, CompleteRun(plan, graphs, ranks));
  ASSIGN_OR_RETURN(Plan listed, ListDecisions(plan, graphs, completed));
  RETURN_IF_ERROR(CompleteParts(graphs, listed));
  std::vector<Graph> rewritten;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const PlanPart& part = listed.stages(0).parts(static_cast<int>(i));
    ASSIGN_OR_RETURN(RewrittenGraph graph, TakeRewritten(completed, i, part));
    rewritten.push_back(std::move(graph.graph));
  }
  return rewritten;
}

}  // namespace tessera
