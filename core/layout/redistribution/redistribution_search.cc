#include "core/layout/redistribution/redistribution_search.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tessera {
namespace {

using Kind = RedistributionStep::Kind;

// Axes of one rank are B.
MeshLayout WithoutAxesOfOneRank(MeshLayout layout, const Mesh& mesh) {
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis(axis).size == 1) layout = layout.With(axis, AxisLayout::Broadcast());
  }
  return layout;
}

// Dijkstra's algorithm over layouts. An edge is a step, or costs nothing because two layouts hold
// the same elements.
class Search {
 public:
  Search(const MeshLayout& from, const MeshLayout& to, const TensorType& type, const Mesh& mesh,
         const CollectivePrices& prices)
      : from_(from), to_(to), type_(type), mesh_(mesh), prices_(prices) {
    for (int dim = 0; dim < static_cast<int>(type.shape.size()); ++dim) AddSplit(dim, 1);
    for (const MeshLayout* end : {&from, &to}) {
      for (const AxisLayout& axis : end->axes()) {
        if (axis.split()) AddSplit(axis.dim, axis.unit);
      }
    }
    Reach(from, {}, -1, std::nullopt);
  }

  std::optional<Redistribution> Run() && {
    while (!queue_.empty()) {
      const auto [distance, index] = queue_.top();
      queue_.pop();
      if (nodes_[index].done) continue;
      nodes_[index].done = true;
      const MeshLayout layout = nodes_[index].layout;
      if (HoldSameElements(layout, to_, type_.shape, mesh_)) return PathTo(index);
      Expand(index, layout);
    }
    return std::nullopt;
  }

 private:
  struct Distance {
    double seconds = 0;
    int steps = 0;
    // The number of sums along an axis before a sum along an axis within it. Fewer is better:
    // consecutive ranks are then summed first, as in a reduction over all axes, so that both give
    // the same bits.
    int outer_first = 0;

    friend bool operator<(const Distance& a, const Distance& b) {
      return std::tie(a.seconds, a.steps, a.outer_first) <
             std::tie(b.seconds, b.steps, b.outer_first);
    }
  };
  struct Node {
    MeshLayout layout;
    Distance distance;
    int previous = -1;
    std::optional<RedistributionStep> step;  // from the previous node; none: the same elements
    bool done = false;
  };
  using Entry = std::pair<Distance, int>;  // of equal distances, the node that was reached first

  void AddSplit(int dim, int64_t unit) {
    const AxisLayout split = AxisLayout::Split(dim, unit);
    if (std::find(splits_.begin(), splits_.end(), split) == splits_.end()) splits_.push_back(split);
  }

  void Reach(const MeshLayout& layout, Distance distance, int previous,
             std::optional<RedistributionStep> step) {
    const auto [known, is_new] = index_.try_emplace(layout, static_cast<int>(nodes_.size()));
    if (is_new) {
      nodes_.push_back({layout, distance, previous, std::move(step)});
    } else {
      Node& node = nodes_[known->second];
      if (node.done || !(distance < node.distance)) return;
      node.distance = distance;
      node.previous = previous;
      node.step = std::move(step);
    }
    queue_.push({distance, known->second});
  }

  void Step(int index, Kind kind, int axis, const MeshLayout& from, AxisLayout next) {
    RedistributionStep step{kind, axis, from, from.With(axis, next)};
    Distance distance = nodes_[index].distance;
    for (const CollectiveCall& call : CollectivesOf(step, type_, mesh_)) {
      distance.seconds += prices_.Seconds(call, mesh_);
    }
    ++distance.steps;
    for (int inner = axis + 1; from.axis(axis).partial() && inner < mesh_.num_axes(); ++inner) {
      if (from.axis(inner).partial()) ++distance.outer_first;
    }
    const MeshLayout to = step.to;
    Reach(to, distance, index, std::move(step));
  }

  void SameElements(int index, const MeshLayout& from, const MeshLayout& to) {
    if (index_.contains(to) && nodes_[index_[to]].done) return;
    if (!HoldSameElements(from, to, type_.shape, mesh_)) return;
    Reach(to, nodes_[index].distance, index, std::nullopt);
  }

  void Expand(int index, const MeshLayout& layout) {
    const bool sums = std::all_of(layout.axes().begin(), layout.axes().end(), [](const auto& axis) {
      return !axis.partial() || axis == AxisLayout::Partial();
    });
    for (int i = 0; i < mesh_.num_axes(); ++i) {
      if (mesh_.axis(i).size == 1) continue;
      const AxisLayout axis = layout.axis(i);
      if (axis.split()) {
        Rename(index, layout, i);
        if (!layout.Innermost(i)) continue;
        Step(index, Kind::kAllGather, i, layout, AxisLayout::Broadcast());
      } else if (axis.partial()) {
        Step(index, Kind::kAllReduce, i, layout, AxisLayout::Broadcast());
      }
      const Kind kind = axis.split()     ? Kind::kAllToAll
                        : axis.partial() ? Kind::kReduceScatter
                                         : Kind::kSlice;
      for (const AxisLayout& split : splits_) {
        if (axis.split() && axis.dim == split.dim) continue;
        Step(index, kind, i, layout, split);
      }
      // On other axes no value is made partial, so that a value that is not partial only moves.
      const bool may_sum =
          from_.axis(i) == AxisLayout::Partial() || to_.axis(i) == AxisLayout::Partial();
      if (sums && may_sum && !axis.partial()) {
        Step(index, Kind::kZeroElsewhere, i, layout, AxisLayout::Partial());
      }
    }
  }

  // Adds equivalent layouts, in which another split is the innermost or a unit differs.
  void Rename(int index, const MeshLayout& layout, int axis) {
    for (const AxisLayout& split : splits_) {
      SameElements(index, layout, layout.With(axis, split));
      if (split.dim == layout.axis(axis).dim) {
        SameElements(index, layout, layout.WithUnit(axis, split.unit));
      }
    }
  }

  Redistribution PathTo(int index) const {
    Redistribution path;
    path.seconds = nodes_[index].distance.seconds;
    for (; index >= 0; index = nodes_[index].previous) {
      if (nodes_[index].step.has_value()) path.steps.push_back(*nodes_[index].step);
    }
    std::reverse(path.steps.begin(), path.steps.end());
    return path;
  }

  const MeshLayout& from_;
  const MeshLayout& to_;
  const TensorType& type_;
  const Mesh& mesh_;
  const CollectivePrices& prices_;
  std::vector<AxisLayout> splits_;  // that intermediate layouts may have
  std::vector<Node> nodes_;
  absl::flat_hash_map<MeshLayout, int> index_;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

std::optional<Redistribution> SearchRedistribution(const MeshLayout& from, const MeshLayout& to,
                                                   const TensorType& type, const Mesh& mesh,
                                                   const CollectivePrices& prices) {
  const MeshLayout source = WithoutAxesOfOneRank(from, mesh);
  const MeshLayout target = WithoutAxesOfOneRank(to, mesh);
  return Search(source, target, type, mesh, prices).Run();
}

}  // namespace tessera
