#include "core/plan/complete.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/layout_proto.h"
#include "core/plan/check.h"
#include "core/plan/choices/stage_passes.h"
#include "core/plan/rewrite/precision.h"
#include "core/plan/rewrite/slices.h"
#include "core/status/status_macros.h"
#include "core/text/quote.h"

namespace tessera {
namespace {

// Lists the stored layout of every state and input, sorted by path.
void ListStores(const LayoutDecisions& decisions, absl::Span<const GraphLayouts> layouts,
                const Mesh& mesh, Stage& stage) {
  std::vector<std::pair<std::string, std::string>> stores;
  for (const auto& [path, stored] : decisions.stored) {
    stores.emplace_back(path, stored.layout.ToString(mesh));
  }
  for (const GraphLayouts& graph : layouts) {
    for (const auto& [path, layout] : graph.caches) {
      stores.emplace_back(path, layout.ToString(mesh));
    }
  }
  std::sort(stores.begin(), stores.end());
  stage.clear_store();
  for (auto& [path, layout] : stores) {
    StoreChoice& choice = *stage.add_store();
    choice.set_path(std::move(path));
    choice.set_layout(std::move(layout));
  }
}

// Lists the groups with all their members.
void ListGroups(const LayoutDecisions& decisions, const Mesh& mesh, Stage& stage) {
  stage.clear_group();
  for (const StoreGroup& group : decisions.groups) {
    GroupChoice& choice = *stage.add_group();
    choice.set_path(absl::StrJoin(group.members, "|"));
    for (const int axis : group.axes) choice.add_over(mesh.axis(axis).name);
    const int gathered_again = static_cast<int>(group.axes.size()) - group.gathers_kept;
    choice.set_gather(group.gathers_after_update ? GroupChoice::AFTER_UPDATE
                      : gathered_again == 0      ? GroupChoice::ONCE
                                                 : GroupChoice::EACH_PHASE);
    if (gathered_again > 0 && group.gathers_kept > 0) {
      choice.set_again_over(mesh.axis(group.axes[gathered_again - 1]).name);
    }
    choice.set_reduce(group.reduce_each ? GroupChoice::EACH_MICRO_BATCH : GroupChoice::AFTER_LAST);
    if (group.block == kRow) {
      choice.set_split_at_rows(true);
    } else if (group.block != 1) {
      choice.set_split_at_multiples_of(group.block);
    }
  }
}

// Lists the sliced parameters, each with its optimizer state.
void ListSlices(const SliceDecisions& slices, Stage& stage) {
  stage.clear_slice();
  for (const SlicedParameter& parameter : slices.parameters) {
    SliceChoice& choice = *stage.add_slice();
    std::vector<std::string> paths = parameter.optimizer_state;
    paths.insert(paths.begin(), parameter.path);
    choice.set_path(absl::StrJoin(paths, "|"));
    choice.set_dimension(parameter.dimension);
    choice.set_count(parameter.count);
  }
}

// Returns the PlanPart of a Graph; appends one to the stage if there is none.
PlanPart& FindOrAddPlanPart(const Graph& graph, Stage& stage) {
  for (PlanPart& part : *stage.mutable_parts()) {
    if (part.graph() == graph.name()) return part;
  }
  PlanPart& part = *stage.add_parts();
  part.set_graph(graph.name());
  return part;
}

// Lists the signature of every op of a Graph.
void ListOperators(const Graph& graph, const GraphLayouts& layouts, const Mesh& mesh,
                   PlanPart& part) {
  part.clear_compute();
  for (const OpId i : graph.ops().ids()) {
    ComputeChoice& choice = *part.add_compute();
    choice.set_path(graph.ops()[i].path);
    choice.set_signature(AxisUsesToString(layouts.ops[i], mesh));
  }
}

}  // namespace

absl::StatusOr<Mesh> MeshOfPlan(const Plan& plan, int ranks) {
  std::vector<Mesh::Axis> axes;
  if (plan.stages_size() > 0) axes = AxesFromProto(plan.stages(0).mesh());
  if (axes.empty() && ranks > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan has no mesh for the ", ranks,
                     " ranks of the job; name an axis: mesh { name: \"data\" }"));
  }
  absl::StatusOr<Mesh> mesh = Mesh::ForRanks(std::move(axes), ranks);
  if (mesh.ok()) return mesh;
  return absl::InvalidArgumentError(absl::StrCat("the Plan's mesh: ", mesh.status().message()));
}

absl::StatusOr<DecidedRun> DecideRun(const Plan& plan, absl::Span<const Graph> graphs, int ranks,
                                     std::shared_ptr<const DecisionSubjects> recorded) {
  RETURN_IF_ERROR(CheckPlan(plan, graphs));
  const Stage& open = plan.stages_size() > 0 ? plan.stages(0) : Stage::default_instance();
  DecidedRun run;
  ASSIGN_OR_RETURN(run.mesh, MeshOfPlan(plan, ranks));
  ASSIGN_OR_RETURN(run.slices, FindSlices(open, graphs));
  run.graphs = graphs;
  if (!run.slices.parameters.empty()) {
    ASSIGN_OR_RETURN(run.rewritten, SliceGraphs(run.graphs, run.slices));
    run.graphs = run.rewritten;
  }
  ASSIGN_OR_RETURN(const Precision precision, ReadPrecision(open));
  if (precision.lowers()) {
    std::vector<Graph> lowered;
    for (const Graph& graph : run.graphs) {
      ASSIGN_OR_RETURN(Graph in_precision, RewritePrecision(graph, precision));
      lowered.push_back(std::move(in_precision));
    }
    run.rewritten = std::move(lowered);
    run.graphs = run.rewritten;
  }
  if (!run.rewritten.empty()) recorded = nullptr;
  ASSIGN_OR_RETURN(run.decisions, FindDecisions(open, run.graphs, run.mesh, std::move(recorded)));
  return run;
}

absl::StatusOr<CompletedRun> CompleteRun(const Plan& plan, absl::Span<const Graph> graphs,
                                         int ranks) {
  CompletedRun completed;
  ASSIGN_OR_RETURN(completed.run, DecideRun(plan, graphs, ranks));
  const DecidedRun& run = completed.run;
  for (size_t i = 0; i < run.graphs.size(); ++i) {
    ASSIGN_OR_RETURN(GraphLayouts layouts,
                     LayOutGraph(run.graphs[i], static_cast<int>(i), run.mesh, run.decisions));
    completed.layouts.push_back(std::move(layouts));
  }
  return completed;
}

absl::StatusOr<Plan> ListDecisions(const Plan& plan, const Fingerprints& graphs,
                                   const CompletedRun& completed_run) {
  const DecidedRun& run = completed_run.run;
  Plan completed = plan;
  if (completed.stages_size() == 0) return completed;
  Stage& stage = *completed.mutable_stages(0);
  if (stage.slice_size() > 0) ListSlices(run.slices, stage);
  if (stage.has_precision()) CompletePrecision(stage);
  if (run.mesh.num_axes() == 0) return completed;  // without axes there is nothing to list
  completed.set_format(kPlanFormat);
  *stage.mutable_mesh() = ToProto(run.mesh);
  ListStores(run.decisions, completed_run.layouts, run.mesh, stage);
  ListGroups(run.decisions, run.mesh, stage);
  CompleteStagePasses(stage);
  stage.clear_compute();
  for (size_t i = 0; i < run.graphs.size(); ++i) {
    PlanPart& part = FindOrAddPlanPart(graphs.graphs()[i], stage);
    RETURN_IF_ERROR(CheckPlanPart(graphs, i, part));
    part.set_fingerprint(graphs.Of(i));
    ListOperators(run.graphs[i], completed_run.layouts[i], run.mesh, part);
  }
  return completed;
}

absl::StatusOr<Plan> CompletePlan(const Plan& plan, absl::Span<const Graph> graphs, int ranks) {
  ASSIGN_OR_RETURN(const CompletedRun run, CompleteRun(plan, graphs, ranks));
  return ListDecisions(plan, Fingerprints(graphs), run);
}

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

}  // namespace tessera
