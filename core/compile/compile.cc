#include "core/compile/compile.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/compile/make_programs.h"
#include "core/compile/redistribution_choices.h"
#include "core/layout/redistribution/choice_prices.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/plan/check.h"
#include "core/plan/complete.h"
#include "core/plan/rewrite_and_lay_out.h"
#include "core/program/kernels/kernel_chooser.h"
#include "core/program/memory/memory_plan.h"
#include "core/program/verify/verify.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Replaces the parts of a Plan by complete ones, with fingerprints.
absl::Status CompleteParts(const Fingerprints& graphs, Plan& plan) {
  ASSIGN_OR_RETURN(std::vector<PlanPart> parts, CompletedParts(graphs, plan));
  plan.set_format(kPlanFormat);
  Stage& stage = plan.stages_size() > 0 ? *plan.mutable_stages(0) : *plan.add_stages();
  stage.clear_parts();
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].fingerprint().empty()) parts[i].set_fingerprint(graphs.Of(i));
    *stage.add_parts() = std::move(parts[i]);
  }
  return absl::OkStatus();
}

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

// Makes the Programs of a run, adds them to `run`, and plans their memory. run->plan must have all
// parts, and then lists the redistributions.
absl::Status MakePrograms(CompletedRun completed, KernelChooser& chooser,
                          PluginPasses* plugin_passes, CompiledRun* run) {
  Stage& stage = *run->plan.mutable_stages(0);
  RedistributionFinder finder(completed.run.mesh, &ChoicePrices());
  RETURN_IF_ERROR(StateRedistributions(stage, finder));
  ASSIGN_OR_RETURN(ProgramMaker maker, ProgramMaker::Create(std::move(completed.run), stage, finder,
                                                            chooser, plugin_passes));
  StateLayout states;
  for (size_t i = 0; i < completed.layouts.size(); ++i) {
    const GraphLayouts layouts = std::move(completed.layouts[i]);
    const PlanPart& part = stage.parts(static_cast<int>(i));
    Graph declarations(part.graph());
    ASSIGN_OR_RETURN(Program program, maker.Make(i, layouts, part, &declarations));
    RETURN_IF_ERROR(states.Add(program));
    run->graphs.push_back(std::move(declarations));
    run->programs.push_back(std::move(program));
  }
  ListRedistributions(finder, stage);
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
  const Fingerprints recorded(graphs);
  ASSIGN_OR_RETURN(CompletedRun completed, CompleteRun(plan, graphs, ranks));
  ASSIGN_OR_RETURN(run.plan, ListDecisions(plan, recorded, completed));
  RETURN_IF_ERROR(CompleteParts(recorded, run.plan));
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
  const Fingerprints recorded(graphs);
  ASSIGN_OR_RETURN(const CompletedRun completed, CompleteRun(plan, graphs, ranks));
  ASSIGN_OR_RETURN(Plan listed, ListDecisions(plan, recorded, completed));
  RETURN_IF_ERROR(CompleteParts(recorded, listed));
  const DecidedRun& run = completed.run;
  std::vector<Graph> rewritten;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const PlanPart& part = listed.stages(0).parts(static_cast<int>(i));
    ASSIGN_OR_RETURN(RewrittenGraph graph, RewriteAndLayOut(run.graphs[i], completed.layouts[i],
                                                            part, run.mesh, run.decisions));
    rewritten.push_back(std::move(graph.graph));
  }
  return rewritten;
}

}  // namespace tessera
