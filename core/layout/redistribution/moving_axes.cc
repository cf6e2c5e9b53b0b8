#include "core/layout/redistribution/moving_axes.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tessera {
namespace {

// Returns whether a split along `axis` has the same splits outside of it in both layouts, all in
// the same units.
bool HasSameOuterSplits(const MeshLayout& a, const MeshLayout& b, int axis) {
  const auto in_a = a.AxesSplitting(a.axis(axis).dim), in_b = b.AxesSplitting(b.axis(axis).dim);
  for (size_t i = 0; i < std::min(in_a.size(), in_b.size()); ++i) {
    if (in_a[i] != in_b[i] || a.axis(in_a[i]) != b.axis(in_b[i])) return false;
    if (in_a[i] == axis) return true;
  }
  return false;
}

}  // namespace

MovingAxes::MovingAxes(const MeshLayout& from, const MeshLayout& to, const Mesh& mesh)
    : unmoved_(mesh.num_axes()) {
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis(axis).size > 1) axes_.push_back(axis);
  }
  all_move_ = axes_.size() <= kMost;
  if (all_move_) return;
  absl::InlinedVector<int, 8> moving;
  for (const int axis : from.NestingOrder()) {
    const AxisLayout& along = from.axis(axis);
    const bool stays = mesh.axis(axis).size > 1 && along == to.axis(axis) &&
                       (!along.split() || HasSameOuterSplits(from, to, axis));
    if (stays) unmoved_ = unmoved_.With(axis, along);
  }
  for (const int axis : axes_) {
    const bool stays = from.axis(axis) == to.axis(axis) && unmoved_.axis(axis) == from.axis(axis);
    if (!stays) moving.push_back(axis);
  }
  axes_ = std::move(moving);
}

Mesh MovingAxes::Submesh(const Mesh& mesh) const {
  std::vector<Mesh::Axis> axes;
  for (const int axis : axes_) axes.push_back(mesh.axis(axis));
  return *Mesh::Create(std::move(axes));
}

Shape MovingAxes::LocalShape(const Shape& global, const Mesh& mesh) const {
  return tessera::LocalShape(unmoved_, global, mesh);
}

MeshLayout MovingAxes::Select(const MeshLayout& layout) const {
  if (static_cast<int>(axes_.size()) == layout.num_axes()) return layout;
  MeshLayout selected(static_cast<int>(axes_.size()));
  for (const int axis : layout.NestingOrder()) {
    const auto found = std::find(axes_.begin(), axes_.end(), axis);
    if (found == axes_.end()) continue;
    selected = selected.With(static_cast<int>(found - axes_.begin()), layout.axis(axis));
  }
  return selected;
}

MeshLayout MovingAxes::Restore(const MeshLayout& layout) const {
  MeshLayout restored = unmoved_;
  for (const int i : layout.NestingOrder()) restored = restored.With(axes_[i], layout.axis(i));
  return restored;
}

RedistributionStep MovingAxes::Restore(const RedistributionStep& step) const {
  RedistributionStep restored;
  restored.kind = step.kind;
  for (const int i : step.axes) restored.axes.push_back(axes_[i]);
  restored.from = Restore(step.from);
  restored.to = Restore(step.to);
  return restored;
}

}  // namespace tessera
