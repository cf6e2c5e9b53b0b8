#include "core/plan/rewrite_and_lay_out.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "core/ids/table.h"
#include "core/layout/signature_fit.h"
#include "core/plan/rewrite/in_parts.h"
#include "core/plan/rewrite/keep_logits.h"
#include "core/plan/rewrite/rewrite.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Returns whether ranks hold different parts of dimension `dim`.
bool SplitsOverRanks(const MeshLayout& layout, int dim, const Mesh& mesh) {
  for (int axis : layout.AxesSplitting(dim)) {
    if (mesh.axis(axis).size > 1) return true;
  }
  return false;
}

// Returns the inputs whose rows of the batch are split over ranks: each micro-batch is an input of
// its own for them.
std::vector<std::string> InputsSplitOverRanks(const Graph& graph, const Mesh& mesh,
                                              const LayoutDecisions& decisions) {
  std::vector<std::string> paths;
  for (const GraphInput& input : graph.inputs()) {
    if (input.batch_dim == kNone) continue;
    const auto it = decisions.stored.find(input.origin);
    if (it != decisions.stored.end() && SplitsOverRanks(it->second.layout, input.batch_dim, mesh)) {
      paths.push_back(input.origin);
    }
  }
  return paths;
}

// Returns whether an op is computed in parts along an axis of more than one rank.
bool IsInParts(const std::vector<AxisUse>& uses, const Mesh& mesh) {
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (uses[axis].signature.in_parts && mesh.axis(axis).size > 1) return true;
  }
  return false;
}

bool AnyInParts(const GraphLayouts& layouts, const Mesh& mesh) {
  return absl::c_any_of(layouts.ops,
                        [&](const std::vector<AxisUse>& uses) { return IsInParts(uses, mesh); });
}

// Returns the Graph with its ops that are computed in parts replaced by them.
Graph InParts(const Graph& graph, const GraphLayouts& layouts, const Mesh& mesh) {
  Table<OpId, bool> in_parts;
  for (const std::vector<AxisUse>& uses : layouts.ops) in_parts.push_back(IsInParts(uses, mesh));
  return WriteInParts(graph, in_parts);
}

// Lays out a Graph that was rewritten from one with known layouts.
class RewrittenLayout {
 public:
  // `recorded` are the layouts of `recorded_graph`.
  RewrittenLayout(const Graph& graph, const Mesh& mesh, const LayoutDecisions& decisions,
                  const Graph& recorded_graph, const GraphLayouts& recorded)
      : graph_(graph),
        mesh_(mesh),
        recorded_graph_(recorded_graph),
        recorded_(recorded),
        summed_on_(graph.values().size()) {
    absl::flat_hash_map<std::string, OpId> recorded_ops;
    for (const OpId i : recorded_graph.ops().ids()) {
      recorded_ops.emplace(recorded_graph.ops()[i].path, i);
    }
    for (const GraphInput& input : graph.inputs()) {
      stored_.push_back({input.value, &decisions.stored.find(input.origin)->second.layout});
    }
    for (const State& state : graph.states()) {
      if (state.input == kNone) continue;
      const auto it = decisions.stored.find(state.path);
      stored_.push_back({state.input, it != decisions.stored.end()
                                          ? &it->second.layout
                                          : &recorded.caches.find(state.path)->second});
    }
    for (const Op& op : graph.ops()) {
      const auto it = recorded_ops.find(op.origin.str());
      origin_.push_back(it == recorded_ops.end() ? OpId() : it->second);
      types_.emplace_back();
      if (origin_.back() == kNone || op.part != kNone) {
        types_.back() = {graph.TypesOf(op.inputs), graph.TypesOf(op.outputs)};
      }
    }
    FindFlatSums(decisions);
  }

  GraphLayouts LayOut() && {
    result_.caches = recorded_.caches;
    result_.ops.resize(graph_.ops().size());
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) LayOutAxis(axis);
    return std::move(result_);
  }

 private:
  // The local types of an op that the rewriting has added, or a part of one, after the splits along
  // the preceding axes.
  struct LocalTypes {
    std::vector<TensorType> inputs, outputs;
  };

  // The sum of a parameter's gradients on the elements of its flat group that a rank holds.
  struct FlatSum {
    const StoreGroup* group = nullptr;
    const MeshLayout* stored = nullptr;  // the layout of the parameter before the group is split
  };

  // Sets summed_on_ of the sums of gradients that are kept on the elements of a flat group that a
  // rank holds, because the group is reduced after each micro-batch.
  void FindFlatSums(const LayoutDecisions& decisions) {
    absl::flat_hash_map<ValueId, FlatSum> sum_of;  // by parameter
    for (const StoreGroup& group : decisions.groups) {
      if (!group.reduce_each) continue;
      for (const std::string& member : group.members) {
        const State* const state = graph_.FindState(member);
        if (state == nullptr) continue;
        sum_of.emplace(state->input, FlatSum{&group, &decisions.stored.at(member).layout});
      }
    }
    if (sum_of.empty()) return;
    for (const OpId i : graph_.ops().ids()) {
      const Op& op = graph_.ops()[i];
      if (origin_[i] != kNone || op.phase != Phase::kBackward) continue;
      for (const ValueId input : op.inputs) {
        FlatSum sum = summed_on_[input];
        if (sum.group == nullptr) {
          const auto it = sum_of.find(graph_.value(input).complete_gradient_of);
          if (it != sum_of.end()) sum = it->second;
        }
        if (sum.group != nullptr) summed_on_[op.outputs[0]] = sum;
      }
    }
  }

  // Returns the use of an op along an axis: the recorded one, with the layout of kept logits, or,
  // for an op that the rewriting has added, one that fits the layouts of its inputs in `values`.
  AxisUse UseOf(OpId i, int axis, const Table<ValueId, AxisLayout>& values) {
    const Op& op = graph_.ops()[i];
    if (op.part != kNone) return UseOfPart(i, axis, values);
    if (origin_[i] != kNone) {
      AxisUse use = recorded_.ops[origin_[i]][axis];
      AddLogits(graph_, op, use.signature);
      return use;
    }
    const FlatSum& sum = summed_on_[op.outputs[0]];
    if (sum.group == nullptr) return ByArrival(i, axis, LayoutsOf(op.inputs, values));
    if (!absl::c_linear_search(sum.group->axes, axis)) return UseBesideFlat(i, axis, values);
    return AxisUse::Flat(op);
  }

  // Returns the use of a part of a recorded op. It reads the op's inputs in the layouts in which
  // the op does, and what other parts compute as it arrives, completed if need be.
  AxisUse UseOfPart(OpId i, int axis, const Table<ValueId, AxisLayout>& values) {
    const Op& op = graph_.ops()[i];
    const OpId whole = origin_[i];
    auto it = parts_.find(whole);
    if (it == parts_.end()) {
      it = parts_.emplace(whole, PartsOf(recorded_graph_, recorded_graph_.op(whole))).first;
    }
    const Graph& parts = it->second.graph;
    std::vector<Arriving> arriving = LayoutsOf(op.inputs, values);
    const std::vector<AxisLayout>& read = recorded_.ops[whole][axis].signature.inputs;
    for (size_t j = 0; j < op.inputs.size(); ++j) {
      const ValueId input = parts.op(OpId(op.part)).inputs[j];
      // The inputs of `parts` are its first values.
      if (parts.value(input).role == Role::kInput) arriving[j] = read[input.index()];
    }
    return ByArrival(i, axis, arriving);
  }

  // Returns the use of a sum on a flat group along an axis over which the group is not split.
  // Gradients that are partial there are added up as they are. Any others are read as the group
  // stores the parameter.
  AxisUse UseBesideFlat(OpId i, int axis, const Table<ValueId, AxisLayout>& values) const {
    const Op& op = graph_.ops()[i];
    const AxisLayout& stored = summed_on_[op.outputs[0]].stored->axis(axis);
    const bool arrives_or_is_stored_split =
        stored.split() ||
        absl::c_any_of(op.inputs, [&](ValueId input) { return values[input].split(); });
    if (!arrives_or_is_stored_split) return ByArrival(i, axis, LayoutsOf(op.inputs, values));
    Signature signature;
    signature.inputs.assign(op.inputs.size(), stored);
    signature.outputs.assign(op.outputs.size(), stored);
    return AxisUse::By(std::move(signature));
  }

  // Appends every op's use along `axis`. Must be called for the axes in order: types_ has what the
  // preceding ones leave.
  void LayOutAxis(int axis) {
    Table<ValueId, AxisLayout> values(graph_.values().size());
    for (const auto& [value, layout] : stored_) values[value] = layout->axis(axis);
    for (const OpId i : graph_.ops().ids()) {
      const Op& op = graph_.ops()[i];
      AxisUse use = UseOf(i, axis, values);
      for (size_t j = 0; j < op.outputs.size(); ++j) {
        values[op.outputs[j]] = use.signature.outputs[j];
      }
      if (origin_[i] == kNone || op.part != kNone) {
        ShrinkToParts(use.signature.inputs, mesh_.axis(axis).size,
                      absl::MakeSpan(types_[i].inputs));
        ShrinkToParts(use.signature.outputs, mesh_.axis(axis).size,
                      absl::MakeSpan(types_[i].outputs));
      }
      result_.ops[i].push_back(std::move(use));
    }
  }

  static std::vector<Arriving> LayoutsOf(absl::Span<const ValueId> inputs,
                                         const Table<ValueId, AxisLayout>& values) {
    std::vector<Arriving> layouts;
    for (const ValueId input : inputs) layouts.push_back(values[input]);
    return layouts;
  }

  // Returns the use by the signature that fits the layouts in which the inputs arrive; else B.
  AxisUse ByArrival(OpId i, int axis, absl::Span<const Arriving> arriving) const {
    const Op& op = graph_.ops()[i];
    const LocalTypes& types = types_[i];
    const std::vector<Signature> signatures =
        op.kind->Signatures({types.inputs, types.outputs, op.attributes});
    std::optional<SignatureFit> fit =
        FitOrGather({signatures, types.inputs, types.outputs}, arriving, op.inputs,
                    {mesh_.axis(axis).size, /*even=*/false, /*keeps_units=*/false});
    return fit.has_value() ? AxisUse::By(std::move(fit->signature)) : AxisUse::Broadcast(op);
  }

  const Graph& graph_;
  const Mesh& mesh_;
  const Graph& recorded_graph_;
  const GraphLayouts& recorded_;
  std::vector<std::pair<ValueId, const MeshLayout*>> stored_;
  Table<OpId, OpId> origin_;           // the recorded op; kNone: the rewriting has added it
  Table<ValueId, FlatSum> summed_on_;  // without a group if it is no such sum
  Table<OpId, LocalTypes> types_;
  absl::flat_hash_map<OpId, OpParts> parts_;  // by recorded op that is computed in parts
  GraphLayouts result_;
};

}  // namespace

bool Rewrites(const PlanPart& part, const GraphLayouts& recorded, const Mesh& mesh) {
  return Rewrites(part) || AnyInParts(recorded, mesh);
}

absl::StatusOr<RewrittenGraph> RewriteAndLayOut(const Graph& graph, const GraphLayouts& recorded,
                                                const PlanPart& part, const Mesh& mesh,
                                                const LayoutDecisions& decisions) {
  if (!Rewrites(part, recorded, mesh)) return RewrittenGraph{graph, recorded};
  std::optional<Graph> in_parts;
  if (AnyInParts(recorded, mesh)) in_parts = InParts(graph, recorded, mesh);
  const std::vector<std::string> separate = InputsSplitOverRanks(graph, mesh, decisions);
  RewrittenGraph result{Graph(graph.name()), {}};
  ASSIGN_OR_RETURN(result.graph,
                   RewriteGraph(in_parts.has_value() ? *in_parts : graph, part, separate));
  result.layouts = RewrittenLayout(result.graph, mesh, decisions, graph, recorded).LayOut();
  return result;
}

}  // namespace tessera
