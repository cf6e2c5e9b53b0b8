#include "core/program/compile.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/plan/rewrite.h"
#include "core/program/assign_buffers.h"
#include "core/program/kernel_chooser.h"
#include "core/program/lower.h"
#include "core/program/memory_plan.h"
#include "core/program/passes/pass.h"
#include "core/program/verify.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

constexpr int kPlanFormat = 1;

// The Plan with a part for every Graph, and every part whole.
absl::StatusOr<Plan> CompletePlan(const Plan& plan, const std::vector<Graph>& graphs) {
  if (plan.format() != 0 && plan.format() != kPlanFormat) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has format ", plan.format(), "; this program reads ", kPlanFormat));
  }
  if (plan.stages_size() > 1 || (plan.stages_size() == 1 && plan.stages(0).mesh_size() > 0)) {
    return absl::InvalidArgumentError("the plan is for more than one device");
  }
  Plan completed;
  completed.set_format(kPlanFormat);
  Stage* stage = completed.add_stages();
  for (const Graph& graph : graphs) {
    PlanPart* part = stage->add_parts();
    if (plan.stages_size() == 1) {
      for (const PlanPart& given : plan.stages(0).parts()) {
        if (given.graph() == graph.name()) *part = given;
      }
    }
    const std::string fingerprint = graph.Fingerprint();
    if (!part->fingerprint().empty() && part->fingerprint() != fingerprint) {
      return absl::InvalidArgumentError(
          absl::StrCat("the plan was made for another graph '", graph.name(), "' (fingerprint ",
                       part->fingerprint(), ", not ", fingerprint, ")"));
    }
    part->set_graph(graph.name());
    part->set_fingerprint(fingerprint);
    if (part->micro_batches() == 0) part->set_micro_batches(1);
    if (part->passes_size() == 0) {
      for (const std::string& pass : DefaultPasses()) part->add_passes()->set_name(pass);
    }
  }
  if (plan.stages_size() == 1) {
    for (const PlanPart& given : plan.stages(0).parts()) {
      const bool known = std::any_of(graphs.begin(), graphs.end(), [&](const Graph& graph) {
        return graph.name() == given.graph();
      });
      if (!known) {
        return absl::InvalidArgumentError(absl::StrCat("the plan has a part for a graph '",
                                                       given.graph(), "' that is not there"));
      }
    }
  }
  return completed;
}

absl::StatusOr<Program> CompileProgram(const Graph& graph, const PlanPart& part,
                                       KernelChooser& chooser) {
  ASSIGN_OR_RETURN(Program program, Lower(graph, chooser));
  for (const PassChoice& choice : part.passes()) {
    if (choice.name() == "none") continue;
    ASSIGN_OR_RETURN(const Pass* pass, FindPass(choice.name()));
    const PassOptions options(choice.options().begin(), choice.options().end());
    RETURN_IF_ERROR(pass->run(options, chooser, program));
  }
  RETURN_IF_ERROR(AssignBuffers(chooser, program));
  return program;
}

// The kernels that the Programs use, sorted by request.
KernelChoices ChoicesOf(const std::vector<Program>& programs, const Backend& backend) {
  const auto to_string = [](absl::string_view text) {
    return std::string(text.data(), text.size());
  };
  std::map<std::string, std::string> chosen;
  for (const Program& program : programs) {
    for (const Instruction& instruction : program.instructions) {
      chosen[program.RequestOf(instruction).Key()] = to_string(instruction.kernel->name());
    }
  }
  const Processor processor = backend.processor();
  KernelChoices choices;
  choices.set_backend(to_string(backend.name()));
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

absl::StatusOr<CompiledRun> CompileRun(std::vector<Graph> graphs, const Plan& plan,
                                       const Backend& backend, const CompileOptions& options) {
  CompiledRun run;
  ASSIGN_OR_RETURN(run.plan, CompletePlan(plan, graphs));
  KernelChooser chooser(&backend, plan.kernels());
  StateLayout states(options.fence_bytes);
  for (size_t i = 0; i < graphs.size(); ++i) {
    const PlanPart& part = run.plan.stages(0).parts(static_cast<int>(i));
    ASSIGN_OR_RETURN(Graph graph, RewriteGraph(std::move(graphs[i]), part));
    ASSIGN_OR_RETURN(Program program, CompileProgram(graph, part, chooser));
    RETURN_IF_ERROR(states.Add(program));
    run.graphs.push_back(std::move(graph));
    run.programs.push_back(std::move(program));
  }
  run.state_bytes = states.bytes();
  for (Program& program : run.programs) {
    PlanMemory(states, program);
    RETURN_IF_ERROR(VerifyProgram(program));
    run.arena_bytes = std::max(run.arena_bytes, program.arena_bytes);
  }
  *run.plan.mutable_kernels() = ChoicesOf(run.programs, backend);
  if (!chooser.note().empty()) run.notes.push_back(chooser.note());
  if (options.memory_limit_bytes > 0 && run.arena_bytes > options.memory_limit_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the run needs ", run.arena_bytes, " bytes, more than the memory limit of ",
                     options.memory_limit_bytes, " bytes; the smallest limit that it meets is ",
                     run.arena_bytes, " bytes"));
  }
  return run;
}

}  // namespace tessera
