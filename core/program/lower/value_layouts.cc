#include "core/program/lower/value_layouts.h"

#include "absl/algorithm/container.h"
#include "core/program/rank_rules.h"
#include "core/status/check.h"

namespace tessera {

ValueLayouts::ValueLayouts(const Graph& graph, const Mesh& mesh, const GraphLayouts& layouts,
                           const LayoutDecisions& decisions, const FlatStorage& storage)
    : graph_(graph), mesh_(mesh), storage_(storage), along_one_axis_(mesh.num_axes()) {
  FindOrAdd(MeshLayout(mesh.num_axes()));
  made_.assign(graph.values().size(), kBroadcast);
  if (storage.num_groups() > 0) FindPositions(layouts);
  ReadStores(layouts, decisions);
  ReadUses(layouts);
}

void ValueLayouts::ReadStores(const GraphLayouts& layouts, const LayoutDecisions& decisions) {
  const auto layout_of = [&](const std::string& path) -> const MeshLayout& {
    const auto stored = decisions.stored.find(path);
    if (stored != decisions.stored.end()) return stored->second.layout;
    const auto cache = layouts.caches.find(path);
    TESSERA_CHECK(cache != layouts.caches.end()) << path << " has no layout";
    return cache->second;
  };
  for (const GraphInput& input : graph_.inputs()) {
    made_[input.value] = FindOrAdd(layout_of(input.origin));
  }
  for (const State& state : graph_.states()) {
    const auto stored = decisions.stored.find(state.path);
    const bool flat = stored != decisions.stored.end() && stored->second.flat() &&
                      storage_.Find(state.path) != nullptr;
    stored_.push_back(FindOrAdd(layout_of(state.path), flat));
    if (state.input != kNone) made_[state.input] = stored_.back();
  }
}

void ValueLayouts::FindPositions(const GraphLayouts& layouts) {
  positions_.assign(graph_.values().size(), nullptr);
  for (const State& state : graph_.states()) {
    const FlatPosition* const position = storage_.Find(state.path);
    if (state.input != kNone) positions_[state.input] = position;
    positions_[state.updated] = position;
  }
  for (const ValueId id : positions_.ids()) {
    const ValueId parameter = graph_.values()[id].complete_gradient_of;
    if (parameter != kNone && positions_[id] == nullptr) positions_[id] = positions_[parameter];
  }
  for (const OpId id : graph_.ops().ids()) {
    const Op& op = graph_.ops()[id];
    for (ValueId input : op.inputs) {
      if (positions_[input] == nullptr) continue;
      if (!UsedFlat(input, layouts.ops[id])) {
        // The result of an update's op on a gathered member may be read as a member. Most scalars
        // are none, such as a sum of squares.
        for (const ValueId output : op.outputs) {
          const Value& value = graph_.value(output);
          const bool like = op.phase == Phase::kUpdate &&
                            value.type.shape == graph_.value(input).type.shape &&
                            (!value.type.shape.empty() || value.gradient_of != kNone);
          if (like && positions_[output] == nullptr) positions_[output] = positions_[input];
        }
        continue;
      }
      const AxisUse& use = layouts.ops[id][storage_.axes(positions_[input]->group)[0]];
      for (size_t i = 0; i < op.outputs.size(); ++i) {
        // A partial output is not a member of the group: it was reduced from one.
        if (use.signature.outputs[i].partial()) continue;
        if (positions_[op.outputs[i]] == nullptr) positions_[op.outputs[i]] = positions_[input];
      }
    }
  }
}

bool ValueLayouts::UsedFlat(ValueId value, absl::Span<const AxisUse> uses) const {
  const FlatPosition* const position = PositionOf(value);
  if (position == nullptr) return false;
  return absl::c_all_of(storage_.axes(position->group),
                        [&](int axis) { return uses[axis].kind == AxisUse::Kind::kFlat; });
}

template <typename LayoutOf>
LayoutId ValueLayouts::FindOrAddOperand(ValueId value, absl::Span<const AxisUse> uses,
                                        const LayoutOf& layout_of) {
  // A use says nothing of which axis is the outer split. On a range of a flat group it is that of
  // the member.
  const bool flat = UsedFlat(value, uses);
  int not_broadcast = 0, along = 0;
  for (int axis = 0; axis < mesh_.num_axes() && !flat; ++axis) {
    if (mesh_.axis(axis).size == 1 || layout_of(uses[axis].signature).broadcast()) continue;
    ++not_broadcast;
    along = axis;
  }
  if (!flat && not_broadcast == 0) return kBroadcast;
  if (!flat && not_broadcast == 1) return FindOrAddAlong(along, layout_of(uses[along].signature));
  MeshLayout layout(mesh_.num_axes());
  if (flat) layout = storage_.MemberLayout(PositionOf(value)->group, PositionOf(value)->member);
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    const AxisLayout& used = layout_of(uses[axis].signature);
    if (used != layout.axis(axis)) layout = layout.With(axis, used);
  }
  return FindOrAdd(std::move(layout), flat);
}

LayoutId ValueLayouts::FindOrAddAlong(int axis, const AxisLayout& used) {
  std::vector<std::pair<AxisLayout, LayoutId>>& known = along_one_axis_[axis];
  for (const auto& [layout, id] : known) {
    if (layout == used) return id;
  }
  known.emplace_back(used, FindOrAdd(MeshLayout(mesh_.num_axes()).With(axis, used)));
  return known.back().second;
}

void ValueLayouts::ReadUses(const GraphLayouts& layouts) {
  first_read_ = {0};
  for (const OpId id : graph_.ops().ids()) {
    const Op& op = graph_.ops()[id];
    const std::vector<AxisUse>& uses = layouts.ops[id];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      read_.push_back(
          FindOrAddOperand(op.inputs[i], uses, [i](const Signature& s) { return s.inputs[i]; }));
    }
    first_read_.push_back(read_.size());
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      made_[op.outputs[i]] =
          FindOrAddOperand(op.outputs[i], uses, [i](const Signature& s) { return s.outputs[i]; });
    }
  }
}

LayoutId ValueLayouts::FindOrAdd(MeshLayout layout, bool flat) {
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    if (mesh_.axis(axis).size == 1) layout = layout.With(axis, AxisLayout::Broadcast());
  }
  const auto [it, inserted] =
      ids_.try_emplace(ValueLayout{std::move(layout), flat}, layouts_.end_id());
  if (inserted) layouts_.push_back(it->first);
  return it->second;
}

Shape ValueLayouts::LocalShapeOf(ValueId value, LayoutId layout) const {
  const Shape& global = graph_.value(value).type.shape;
  if (layout == kBroadcast) return global;
  if (!flat(layout)) return LocalShape(layouts_[layout].layout, global, mesh_);
  const FlatPosition& position = *PositionOf(value);
  return {FlatRule{storage_.group(position.group), {}, position.member}.LocalElements()};
}

}  // namespace tessera
