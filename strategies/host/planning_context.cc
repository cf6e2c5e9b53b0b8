#include "strategies/host/planning_context.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/graph/graph_proto.h"
#include "core/plan/complete.h"
#include "core/plan/pass_names.h"
#include "core/plan/stage_passes.h"
#include "core/program/compile.h"
#include "core/program/passes/pass.h"
#include "core/program/program_proto.h"
#include "core/status/status_macros.h"
#include "core/text/nearest_name.h"

namespace tessera {
namespace {

strategy::OperatorDescriptions::Operator DescriptionOf(const Graph& graph, const Op& op) {
  const std::vector<TensorType> inputs = graph.TypesOf(op.inputs);
  const std::vector<TensorType> outputs = graph.TypesOf(op.outputs);
  const OpTypes types = {inputs, outputs, op.attributes};
  const OpCost cost = op.kind->Cost(types);
  strategy::OperatorDescriptions::Operator description;
  description.set_path(op.path);
  description.set_kind(std::string(op.kind->name()));
  description.set_flops(cost.flops);
  description.set_bytes(cost.bytes);
  for (const Signature& signature : op.kind->Signatures(types)) {
    description.add_signatures(signature.ToString());
  }
  return description;
}

}  // namespace

absl::StatusOr<const Graph*> PlanningContext::FindGraph(const std::string& name) const {
  std::vector<std::string> names;
  for (const Graph& graph : graphs_) {
    if (graph.name() == name) return &graph;
    names.push_back(graph.name());
  }
  return absl::NotFoundError(absl::StrCat("the run has no graph '", name, "'; it has ",
                                          absl::StrJoin(names, ", "), DidYouMean(name, names)));
}

strategy::RunGraphs PlanningContext::Graphs() const {
  strategy::RunGraphs graphs;
  for (const Graph& graph : graphs_) *graphs.add_graphs() = GraphToProto(graph);
  return graphs;
}

absl::StatusOr<strategy::OperatorDescriptions> PlanningContext::Describe(
    const strategy::DescribeOperators& request) const {
  ASSIGN_OR_RETURN(const Graph* const graph, FindGraph(request.graph()));
  absl::flat_hash_set<std::string> missing(request.paths().begin(), request.paths().end());
  const bool all = missing.empty();
  strategy::OperatorDescriptions descriptions;
  for (const Op& op : graph->ops()) {
    if (!all && missing.erase(op.path) == 0) continue;
    *descriptions.add_operators() = DescriptionOf(*graph, op);
  }
  if (missing.empty()) return descriptions;
  return absl::NotFoundError(absl::StrCat("graph '", graph->name(), "' has no operator '",
                                          *absl::c_min_element(missing), "'"));
}

absl::StatusOr<Plan> PlanningContext::Complete(const Plan& plan) const {
  return CompletePlan(plan, graphs_, for_.ranks);
}

absl::StatusOr<ProgramProto> PlanningContext::Program(const strategy::MakeProgram& request) const {
  ASSIGN_OR_RETURN(const Graph* const graph, FindGraph(request.graph()));
  // Layouts of states belong to all Graphs, so all of them are compiled.
  ASSIGN_OR_RETURN(const CompiledRun run,
                   CompileRun(graphs_, request.plan(), *for_.catalogue, for_.ranks));
  return ToProto(*run.FindProgram(graph->name()));
}

strategy::PassDescriptions DescribePasses() {
  strategy::PassDescriptions descriptions;
  const auto add = [&descriptions](absl::string_view name, absl::string_view help) {
    strategy::PassDescriptions::Pass& pass = *descriptions.add_passes();
    pass.set_name(std::string(name));
    pass.set_help(std::string(help));
  };
  for (const absl::string_view name : kPassNames) add(name, (*FindPass(name))->help);
  for (const StagePassHelp& pass : StagePassesWithHelp()) add(pass.name, pass.help);
  return descriptions;
}

}  // namespace tessera
