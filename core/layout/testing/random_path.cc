#include "core/layout/testing/random_path.h"

#include <algorithm>
#include <utility>

#include "core/layout/redistribution/stated_path.h"

namespace tessera {
namespace {

using Kind = RedistributionStep::Kind;

int Below(int bound, std::mt19937& engine) {
  return static_cast<int>(engine() % static_cast<uint32_t>(bound));
}

AxisLayout DrawSplit(const TensorType& type, std::mt19937& engine) {
  const int dim = Below(std::max(1, static_cast<int>(type.shape.size())), engine);
  return AxisLayout::Split(dim, std::max(1, Below(6, engine) - 2));
}

// Returns a step that may be impossible.
RedistributionStep ProposeStep(MeshLayout from, const TensorType& type, const Mesh& mesh,
                               std::mt19937& engine) {
  RedistributionStep step;
  step.kind = static_cast<Kind>(Below(6, engine));
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis(axis).size == 1) from = from.With(axis, AxisLayout::Broadcast());
    if (from.axis(axis).split() && Below(8, engine) == 0) {
      from = from.WithUnit(axis, 1 + Below(3, engine));
    }
    if (Below(2, engine) == 0) step.axes.push_back(axis);
  }
  step.from = from;
  step.to = WithBroadcast(from, step.axes);
  auto order = step.axes;
  std::shuffle(order.begin(), order.end(), engine);
  for (const int axis : order) {
    if (step.kind == Kind::kZeroElsewhere) step.to = step.to.With(axis, AxisLayout::Partial());
    if (step.kind == Kind::kReduceScatter || step.kind == Kind::kAllToAll ||
        step.kind == Kind::kSlice) {
      step.to = step.to.With(axis, DrawSplit(type, engine));
    }
  }
  return step;
}

}  // namespace

std::vector<RedistributionStep> DrawPath(const MeshLayout& from, int most, const TensorType& type,
                                         const Mesh& mesh, std::mt19937& engine) {
  std::vector<RedistributionStep> steps;
  MeshLayout layout = from;
  for (int tries = 0; tries < 100 * most && static_cast<int>(steps.size()) < most; ++tries) {
    RedistributionStep step = ProposeStep(layout, type, mesh, engine);
    if (step.axes.empty() || !CheckPath({&step, 1}, layout, step.to, type, mesh).ok()) continue;
    layout = step.to;
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace tessera
