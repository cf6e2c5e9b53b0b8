#include "core/plan/layouts/graph_layouts.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "core/ids/table.h"
#include "core/plan/layouts/axis_completion.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class GraphLayout {
 public:
  GraphLayout(const Graph& graph, int number, const Mesh& mesh, const LayoutDecisions& decisions)
      : graph_(graph),
        mesh_(mesh),
        stored_(graph.values().size(), nullptr),
        updated_(graph.values().size(), nullptr),
        planned_(graph.ops().size(), nullptr),
        gathers_(graph.ops().size(), false) {
    for (const auto& [op, uses] : decisions.operators[number]) planned_[op] = &uses;
    for (const GraphInput& input : graph.inputs()) {
      stored_[input.value] = Find(decisions.stored, graph.value(input.value).path);
    }
    for (const State& state : graph.states()) ReadState(state, decisions);
    for (const ValueId id : graph.values().ids()) {
      const Value& value = graph.value(id);
      if (value.gradient_of != kNone) updated_[id] = updated_[value.gradient_of];
      // The gradient of a parameter whose cast to fewer bits is read.
      const ValueId parameter = value.complete_gradient_of;
      if (parameter != kNone && updated_[id] == nullptr) updated_[id] = updated_[parameter];
    }
  }

  // The axes are completed one after another, so it may turn out late that an op is not on the
  // range of a flat group along all axes. Then all are completed again, with the op on gathered
  // values. Each repetition adds such ops.
  absl::StatusOr<GraphLayouts> Complete() && {
    do {
      RETURN_IF_ERROR(CompleteAxes());
    } while (AddGatheringOps());
    return std::move(result_);
  }

 private:
  using Stores = absl::flat_hash_map<std::string, StoredLayout>;

  static const StoredLayout* Find(const Stores& stores, const std::string& path) {
    const auto it = stores.find(path);
    return it == stores.end() ? nullptr : &it->second;
  }

  // Sets the stored and updated layouts of a state's values.
  void ReadState(const State& state, const LayoutDecisions& decisions) {
    const StoredLayout* stored = Find(decisions.stored, state.path);
    const StoredLayout* updated = Find(decisions.updated, state.path);
    if (updated == nullptr) updated = stored;
    if (state.input != kNone) {
      stored_[state.input] = stored;
      updated_[state.input] = updated;
    }
    if (stored == nullptr) caches_.push_back(&state);
    if (state.updated == state.input) return;
    // If a Graph only writes a state, it computes the state as it is stored.
    updated_[state.updated] = state.input == kNone ? stored : updated;
  }

  // Completes all axes from the beginning, with the ops of `gathers_` on gathered values.
  absl::Status CompleteAxes() {
    SetGlobalTypes();
    result_.ops.assign(graph_.ops().size(), {});
    for (const State* cache : caches_) result_.caches[cache->path] = MeshLayout(mesh_.num_axes());
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) RETURN_IF_ERROR(CompleteAxis(axis));
    return absl::OkStatus();
  }

  // Sets the types of all operands to the global ones.
  void SetGlobalTypes() {
    operands_.clear();
    for (const Op& op : graph_.ops()) {
      for (const ValueId input : op.inputs) operands_.push_back(graph_.value(input).type);
      for (const ValueId output : op.outputs) operands_.push_back(graph_.value(output).type);
    }
    types_.clear();
    size_t next = 0;
    const auto take = [&](size_t count) {
      next += count;
      return absl::MakeConstSpan(operands_).subspan(next - count, count);
    };
    for (const Op& op : graph_.ops()) {
      const absl::Span<const TensorType> inputs = take(op.inputs.size());
      types_.push_back({inputs, take(op.outputs.size())});
    }
  }

  // Adds to `gathers_` the ops that are on the range of a flat group along some axes, but cannot be
  // on the range that a rank holds. Returns whether it added any.
  bool AddGatheringOps() {
    bool added = false;
    for (const OpId id : graph_.ops().ids()) {
      if (gathers_[id] || IsOnRange(id)) continue;
      gathers_[id] = added = true;
    }
    return added;
  }

  // Returns whether an op may keep its use: it is flat along no axis, or it reads and writes each
  // member of a flat group as the group stores it: flat along all its axes, and in the group's
  // layout along the others, over which a gradient may be partial.
  bool IsOnRange(OpId id) const {
    const Op& op = graph_.op(id);
    const std::vector<AxisUse>& uses = result_.ops[id];
    const auto is_flat = [&](int axis) {
      return mesh_.axis(axis).size > 1 && uses[axis].kind == AxisUse::Kind::kFlat;
    };
    const auto is_as_stored = [&](ValueId value, const AxisLayout& layout, int axis) {
      const StoredLayout* store = updated_[value] != nullptr ? updated_[value] : stored_[value];
      if (store == nullptr || !store->flat() || mesh_.axis(axis).size == 1) return true;
      const bool splits_group = absl::c_linear_search(store->flat_axes, axis);
      if (splits_group || is_flat(axis)) return splits_group == is_flat(axis);
      const bool is_gradient = graph_.value(value).complete_gradient_of != kNone;
      return layout == store->layout.axis(axis) || (is_gradient && layout.partial());
    };
    bool flat_along_any = false, all_as_stored = true;
    for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
      flat_along_any = flat_along_any || is_flat(axis);
      const Signature& signature = uses[axis].signature;
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        all_as_stored = all_as_stored && is_as_stored(op.inputs[i], signature.inputs[i], axis);
      }
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        all_as_stored = all_as_stored && is_as_stored(op.outputs[i], signature.outputs[i], axis);
      }
    }
    return all_as_stored || !flat_along_any;
  }

  // Appends every op's use along `axis` to result_.ops, and shrinks the types to those of a rank.
  // Must be called for the axes in order.
  absl::Status CompleteAxis(int axis) {
    AxisDecisions decisions;
    decisions.gathers = gathers_;
    for (const AxisUses* uses : planned_) {
      const bool decided = uses != nullptr && (*uses)[axis].has_value();
      decisions.ops.push_back(decided ? &*(*uses)[axis] : nullptr);
    }
    decisions.stored = AlongAxis(stored_, axis);
    decisions.updated = AlongAxis(updated_, axis);
    ASSIGN_OR_RETURN(AxisResult result,
                     tessera::CompleteAxis(graph_, types_, result_.ops, decisions, mesh_, axis));
    for (const State* cache : caches_) {
      MeshLayout& layout = result_.caches[cache->path];
      if (result.values[cache->updated].split()) {
        layout = layout.With(axis, result.values[cache->updated]);
      }
    }
    // The next axis gets the local types.
    TensorType* operand = operands_.data();
    for (const OpId i : types_.ids()) {
      const Signature& signature = result.ops[i].signature;
      const size_t inputs = types_[i].inputs.size(), outputs = types_[i].outputs.size();
      ShrinkToParts(signature.inputs, mesh_.axis(axis).size, {operand, inputs});
      ShrinkToParts(signature.outputs, mesh_.axis(axis).size, {operand + inputs, outputs});
      operand += inputs + outputs;
      result_.ops[i].push_back(std::move(result.ops[i]));
    }
    return absl::OkStatus();
  }

  // Returns the stores' layouts along one axis.
  static Table<ValueId, std::optional<AxisStore>> AlongAxis(
      const Table<ValueId, const StoredLayout*>& stores, int axis) {
    Table<ValueId, std::optional<AxisStore>> along;
    along.reserve(stores.size());
    for (const StoredLayout* store : stores) {
      along.emplace_back();
      if (store != nullptr) {
        along.back() =
            AxisStore{store->layout.axis(axis), absl::c_linear_search(store->flat_axes, axis)};
      }
    }
    return along;
  }

  const Graph& graph_;
  const Mesh& mesh_;
  Table<ValueId, const StoredLayout*> stored_, updated_;  // nullptr: none
  Table<OpId, const AxisUses*> planned_;                  // nullptr: none
  Table<OpId, bool> gathers_;                             // see AxisDecisions
  std::vector<const State*> caches_;                      // that the Plan leaves open
  std::vector<TensorType> operands_;  // the types of each op's inputs and outputs, op by op
  Table<OpId, LocalTypes> types_;     // ranges of operands_
  GraphLayouts result_;
};

}  // namespace

void ShrinkToParts(absl::Span<const AxisLayout> layouts, int ranks, absl::Span<TensorType> types) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    if (!layouts[i].split()) continue;
    int64_t& extent = types[i].shape[layouts[i].dim];
    extent = PartExtent(extent, layouts[i].unit, ranks);
  }
}

absl::StatusOr<GraphLayouts> LayOutGraph(const Graph& graph, int number, const Mesh& mesh,
                                         const LayoutDecisions& decisions) {
  return GraphLayout(graph, number, mesh, decisions).Complete();
}

}  // namespace tessera
