#include "core/plan/complete.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/layout/layout_proto.h"
#include "core/layout/mesh.h"
#include "core/plan/check.h"
#include "core/plan/graph_layouts.h"
#include "core/plan/layout_decisions.h"
#include "core/plan/precision.h"
#include "core/plan/slices.h"
#include "core/plan/stage_passes.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Lists how every state and input is stored, sorted by path.
void ListStores(const LayoutDecisions& decisions, const std::vector<GraphLayouts>& layouts,
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

std::string GatherText(const StoreGroup& group, const Mesh& mesh) {
  const int gathered_again = static_cast<int>(group.axes.size()) - group.gathers_kept;
  if (group.gathers_kept == 0) return absl::StrCat(kGatherEachPhase);
  if (gathered_again == 0) return absl::StrCat(kGatherOnce);
  return absl::StrCat(kGatherEachPhaseOver, mesh.axis(group.axes[gathered_again - 1]).name);
}

void ListGroups(const LayoutDecisions& decisions, const Mesh& mesh, Stage& stage) {
  stage.clear_group();
  for (const StoreGroup& group : decisions.groups) {
    GroupChoice& choice = *stage.add_group();
    choice.set_path(absl::StrJoin(group.members, "|"));
    choice.set_layout(absl::StrJoin(group.axes, ", ", [&](std::string* out, int axis) {
      absl::StrAppend(out, mesh.axis(axis).name, ": flat");
    }));
    choice.set_gather(GatherText(group, mesh));
    const absl::string_view reduce = group.reduce_each ? kReduceEachMicroBatch : kReduceOnce;
    choice.set_reduce(reduce.data(), reduce.size());
    if (group.block != 1) {
      choice.set_block(group.block == kRow ? absl::StrCat(kBlockRow) : absl::StrCat(group.block));
    }
  }
}

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

PlanPart& PartFor(const Graph& graph, Stage& stage) {
  for (PlanPart& part : *stage.mutable_parts()) {
    if (part.graph() == graph.name()) return part;
  }
  PlanPart& part = *stage.add_parts();
  part.set_graph(graph.name());
  return part;
}

void ListOperators(const Graph& graph, const GraphLayouts& layouts, const Mesh& mesh,
                   PlanPart& part) {
  part.clear_operator_();
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    OperatorChoice& choice = *part.add_operator_();
    choice.set_path(graph.ops()[i].path);
    choice.set_signature(AxisUsesToString(layouts.ops[i], mesh));
  }
}

// The Graphs whose layouts a Plan states: with its slices, in its precision. Empty if these are the
// recorded ones.
absl::StatusOr<std::vector<Graph>> GraphsToLayOut(const Stage& stage,
                                                  absl::Span<const Graph> recorded,
                                                  const SliceDecisions& slices) {
  ASSIGN_OR_RETURN(const Precision precision, ReadPrecision(stage));
  if (slices.parameters.empty() && !precision.lowers()) return std::vector<Graph>();
  std::vector<Graph> graphs(recorded.begin(), recorded.end());
  if (!slices.parameters.empty()) {
    ASSIGN_OR_RETURN(graphs, SliceGraphs(graphs, slices));
  }
  for (Graph& graph : graphs) {
    if (!precision.lowers()) break;
    ASSIGN_OR_RETURN(graph, RewritePrecision(graph, precision));
  }
  return graphs;
}

}  // namespace

absl::StatusOr<Plan> CompletePlan(const Plan& plan, absl::Span<const Graph> graphs, int ranks) {
  RETURN_IF_ERROR(CheckPlanForm(plan));
  const Stage open = plan.stages_size() > 0 ? plan.stages(0) : Stage();
  absl::StatusOr<Mesh> mesh = Mesh::ForRanks(AxesFromProto(open.mesh()), ranks);
  if (open.mesh_size() == 0 && ranks > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the Plan has no mesh for the ", ranks,
                     " ranks of the job; name an axis: mesh { name: \"data\" }"));
  }
  if (!mesh.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the Plan's mesh: ", mesh.status().message()));
  }
  ASSIGN_OR_RETURN(const SliceDecisions slices, FindSlices(open, graphs));
  Plan completed = plan;
  if (open.slice_size() > 0) ListSlices(slices, *completed.mutable_stages(0));
  if (open.has_precision()) CompletePrecision(*completed.mutable_stages(0));
  if (mesh->num_axes() == 0) return completed;
  ASSIGN_OR_RETURN(const std::vector<Graph> rewritten, GraphsToLayOut(open, graphs, slices));
  const absl::Span<const Graph> laid_out = rewritten.empty() ? graphs : rewritten;
  ASSIGN_OR_RETURN(const LayoutDecisions decisions, FindDecisions(open, laid_out, *mesh));
  std::vector<GraphLayouts> layouts;
  for (size_t i = 0; i < laid_out.size(); ++i) {
    ASSIGN_OR_RETURN(GraphLayouts graph,
                     LayOutGraph(laid_out[i], static_cast<int>(i), *mesh, decisions));
    layouts.push_back(std::move(graph));
  }
  completed.set_format(kPlanFormat);
  Stage& stage = *completed.mutable_stages(0);
  *stage.mutable_mesh() = ToProto(*mesh);
  ListStores(decisions, layouts, *mesh, stage);
  ListGroups(decisions, *mesh, stage);
  CompleteStagePasses(stage);
  stage.clear_operator_();
  for (size_t i = 0; i < graphs.size(); ++i) {
    PlanPart& part = PartFor(graphs[i], stage);
    RETURN_IF_ERROR(CheckPlanPart(graphs[i], part));
    part.set_fingerprint(graphs[i].Fingerprint());
    ListOperators(laid_out[i], layouts[i], *mesh, part);
  }
  return completed;
}

}  // namespace tessera
