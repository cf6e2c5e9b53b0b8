#include "core/layout/redistribution/gather_and_split.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

using Axes = absl::InlinedVector<int, 4>;

bool Has(const Axes& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// Returns the axes of `axes` whose splits in `layout` are within splits along such axes only.
Axes Outermost(const MeshLayout& layout, const Axes& axes) {
  Axes outermost;
  for (const int axis : axes) {
    const Axes nested = layout.AxesSplitting(layout.axis(axis).dim);
    const auto end = std::find(nested.begin(), nested.end(), axis);
    if (std::all_of(nested.begin(), end, [&](int outer) { return Has(axes, outer); })) {
      outermost.push_back(axis);
    }
  }
  return outermost;
}

}  // namespace

std::optional<Redistribution> GatherAndSplit(const MeshLayout& from, const MeshLayout& to,
                                             const Mesh& mesh) {
  using Kind = RedistributionStep::Kind;
  Redistribution path;
  MeshLayout layout = from;
  const auto add = [&](Kind kind, const Axes& axes, const MeshLayout& next) {
    if (axes.empty()) return;
    RedistributionStep step;
    step.kind = kind;
    step.axes = axes;
    step.from = std::exchange(layout, next);
    step.to = next;
    path.steps.push_back(std::move(step));
  };
  Axes scattered, split, partial;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisLayout &before = from.axis(axis), &after = to.axis(axis);
    if (after.partial() && after == before) continue;
    if (after.partial() && after != AxisLayout::Partial()) return std::nullopt;
    if (before.partial() && after.split()) scattered.push_back(axis);
    if (before.split()) split.push_back(axis);
  }
  if (!split.empty()) scattered.clear();  // the splits are gathered first
  scattered = Outermost(to, scattered);
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const bool completed = from.axis(axis).partial() && from.axis(axis) != to.axis(axis);
    if (completed && !Has(scattered, axis)) partial.push_back(axis);
  }
  MeshLayout next = layout;
  for (const int axis : to.NestingOrder()) {
    if (Has(scattered, axis)) next = next.With(axis, to.axis(axis));
  }
  add(Kind::kReduceScatter, scattered, next);
  add(Kind::kAllReduce, partial, WithBroadcast(layout, partial));
  add(Kind::kAllGather, split, WithBroadcast(layout, split));
  for (const int axis : to.NestingOrder()) {
    if (to.axis(axis).split() && layout.axis(axis) != to.axis(axis)) {
      add(Kind::kSlice, {axis}, layout.With(axis, to.axis(axis)));
    }
  }
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (to.axis(axis).partial() && layout.axis(axis).broadcast()) {
      add(Kind::kZeroElsewhere, {axis}, layout.With(axis, to.axis(axis)));
    }
  }
  return path;
}

}  // namespace tessera
