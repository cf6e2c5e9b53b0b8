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

// Returns `layout` with B along axes of one rank.
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
    AddOrImproveNode(from, {}, -1, std::nullopt);
  }

  std::optional<Redistribution> Run() && {
    while (!queue_.empty()) {
      const auto [distance, index] = queue_.top();
      queue_.pop();
      if (nodes_[index].settled) continue;
      nodes_[index].settled = true;
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
    bool settled = false;                    // its distance is final
  };
  using Entry = std::pair<Distance, int>;  // of equal distances, the node that was reached first

  // Adds a split that intermediate layouts may have.
  void AddSplit(int dim, int64_t unit) {
    const AxisLayout split = AxisLayout::Split(dim, unit);
    if (std::find(splits_.begin(), splits_.end(), split) == splits_.end()) splits_.push_back(split);
  }

  // Adds a node for a layout that was reached from node `previous` by `step`, or improves the node
  // that it has.
  void AddOrImproveNode(const MeshLayout& layout, Distance distance, int previous,
                        std::optional<RedistributionStep> step) {
    const auto [known, is_new] = index_.try_emplace(layout, static_cast<int>(nodes_.size()));
    if (is_new) {
      nodes_.push_back({layout, distance, previous, std::move(step)});
    } else {
      Node& node = nodes_[known->second];
      if (node.settled || !(distance < node.distance)) return;
      node.distance = distance;
      node.previous = previous;
      node.step = std::move(step);
    }
    queue_.push({distance, known->second});
  }

  // Follows the edge of a step from node `index`, which brings `axis` of `from` to the layout
  // `next`.
  void TakeStep(int index, Kind kind, int axis, const MeshLayout& from, AxisLayout next) {
    RedistributionStep step{kind, {axis}, from, from.With(axis, next)};
    Distance distance = nodes_[index].distance;
    for (const CollectiveCall& call : CollectivesOf(step, type_, mesh_)) {
      distance.seconds += prices_.Seconds(call, mesh_);
    }
    ++distance.steps;
    for (int inner = axis + 1; from.axis(axis).partial() && inner < mesh_.num_axes(); ++inner) {
      if (from.axis(inner).partial()) ++distance.outer_first;
    }
    const MeshLayout to = step.to;
    AddOrImproveNode(to, distance, index, std::move(step));
  }

  // Follows the free edge to `to` if each rank holds the same elements in both layouts.
  void ReachIfSameElements(int index, const MeshLayout& from, const MeshLayout& to) {
    if (index_.contains(to) && nodes_[index_[to]].settled) return;
    if (!HoldSameElements(from, to, type_.shape, mesh_)) return;
    AddOrImproveNode(to, nodes_[index].distance, index, std::nullopt);
  }

  // Follows all edges from a node.
  void Expand(int index, const MeshLayout& layout) {
    const bool partial_only_as_sums = std::all_of(
        layout.axes().begin(), layout.axes().end(),
        [](const auto& axis) { return !axis.partial() || axis == AxisLayout::Partial(); });
    for (int i = 0; i < mesh_.num_axes(); ++i) {
      if (mesh_.axis(i).size == 1) continue;
      const AxisLayout axis = layout.axis(i);
      if (axis.split()) {
        ReachEquivalentLayouts(index, layout, i);
        if (!layout.IsInnermost(i)) continue;
        TakeStep(index, Kind::kAllGather, i, layout, AxisLayout::Broadcast());
      } else if (axis.partial()) {
        TakeStep(index, Kind::kAllReduce, i, layout, AxisLayout::Broadcast());
      }
      const Kind kind = axis.split()     ? Kind::kAllToAll
                        : axis.partial() ? Kind::kReduceScatter
                                         : Kind::kSlice;
      for (const AxisLayout& split : splits_) {
        if (axis.split() && axis.dim == split.dim) continue;
        TakeStep(index, kind, i, layout, split);
      }
      // On other axes no value is made partial, so that a value that is not partial only moves.
      const bool may_sum =
          from_.axis(i) == AxisLayout::Partial() || to_.axis(i) == AxisLayout::Partial();
      if (partial_only_as_sums && may_sum && !axis.partial()) {
        TakeStep(index, Kind::kZeroElsewhere, i, layout, AxisLayout::Partial());
      }
    }
  }

  // Reaches equivalent layouts, in which another split is the innermost or a unit differs.
  void ReachEquivalentLayouts(int index, const MeshLayout& layout, int axis) {
    for (const AxisLayout& split : splits_) {
      ReachIfSameElements(index, layout, layout.With(axis, split));
      if (split.dim == layout.axis(axis).dim) {
        ReachIfSameElements(index, layout, layout.WithUnit(axis, split.unit));
      }
    }
  }

  // Returns the steps from the first node to this one.
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
