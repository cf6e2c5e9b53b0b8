#include "core/program/value_layouts.h"

#include "core/status/check.h"

namespace tessera {

ValueLayouts::ValueLayouts(const Graph& graph) : graph_(graph) {
  Enter(MeshLayout(0));
  made_.assign(graph.values().size(), kBroadcast);
  stored_.assign(graph.states().size(), kBroadcast);
  first_read_ = {0};
  for (const Op& op : graph.ops()) {
    first_read_.push_back(first_read_.back() + static_cast<int32_t>(op.inputs.size()));
  }
  read_.assign(first_read_.back(), kBroadcast);
}

ValueLayouts::ValueLayouts(const Graph& graph, const Mesh& mesh, const GraphLayouts& layouts,
                           const LayoutDecisions& decisions)
    : graph_(graph), mesh_(mesh) {
  Enter(MeshLayout(mesh.num_axes()));
  made_.assign(graph.values().size(), kBroadcast);
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
    made_[input.value] = Enter(layout_of(graph_.value(input.value).path));
  }
  for (const State& state : graph_.states()) {
    stored_.push_back(Enter(layout_of(state.path)));
    if (state.input != kNone) made_[state.input] = stored_.back();
  }
}

template <typename LayoutOf>
int32_t ValueLayouts::EnterOperand(absl::Span<const AxisUse> uses, const LayoutOf& layout_of) {
  MeshLayout layout(mesh_.num_axes());
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    layout = layout.With(axis, layout_of(uses[axis].signature));
  }
  return Enter(std::move(layout));
}

void ValueLayouts::ReadUses(const GraphLayouts& layouts) {
  first_read_ = {0};
  for (size_t id = 0; id < graph_.ops().size(); ++id) {
    const Op& op = graph_.ops()[id];
    const std::vector<AxisUse>& uses = layouts.ops[id];
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      read_.push_back(EnterOperand(uses, [i](const Signature& s) { return s.inputs[i]; }));
    }
    first_read_.push_back(static_cast<int32_t>(read_.size()));
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      made_[op.outputs[i]] = EnterOperand(uses, [i](const Signature& s) { return s.outputs[i]; });
    }
  }
}

int32_t ValueLayouts::Enter(MeshLayout layout) {
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    if (mesh_.axis(axis).size == 1) layout = layout.With(axis, AxisLayout::Broadcast());
  }
  const auto [it, inserted] =
      numbers_.try_emplace(std::move(layout), static_cast<int32_t>(layouts_.size()));
  if (inserted) layouts_.push_back(it->first);
  return it->second;
}

TensorType ValueLayouts::LocalType(const TensorType& global, int32_t layout) const {
  if (layout == kBroadcast) return global;
  return {global.dtype, LocalShape(layouts_[layout], global.shape, mesh_)};
}

}  // namespace tessera
