#include "core/layout/redistribution/gather_and_split.h"

#include <utility>

namespace tessera {

std::optional<Redistribution> GatherAndSplit(const MeshLayout& from, const MeshLayout& to,
                                             const Mesh& mesh) {
  using Kind = RedistributionStep::Kind;
  Redistribution path;
  MeshLayout layout = from;
  const auto add = [&](Kind kind, absl::InlinedVector<int, 4> axes, const MeshLayout& next) {
    if (axes.empty()) return;
    RedistributionStep step;
    step.kind = kind;
    step.axes = std::move(axes);
    step.from = std::exchange(layout, next);
    step.to = next;
    path.steps.push_back(std::move(step));
  };
  absl::InlinedVector<int, 4> partial, split;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisLayout& after = to.axis(axis);
    if (after.partial() && after == from.axis(axis)) continue;
    if (after.partial() && after != AxisLayout::Partial()) return std::nullopt;
    if (from.axis(axis).partial()) partial.push_back(axis);
    if (from.axis(axis).split()) split.push_back(axis);
  }
  add(Kind::kAllReduce, partial, WithBroadcast(layout, partial));
  add(Kind::kAllGather, split, WithBroadcast(layout, split));
  for (const int axis : to.NestingOrder()) {
    if (to.axis(axis).split()) add(Kind::kSlice, {axis}, layout.With(axis, to.axis(axis)));
  }
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (to.axis(axis).partial() && layout.axis(axis).broadcast()) {
      add(Kind::kZeroElsewhere, {axis}, layout.With(axis, to.axis(axis)));
    }
  }
  return path;
}

}  // namespace tessera
