#include "core/layout/redistribution/layout_graph.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "absl/container/inlined_vector.h"

namespace tessera {
namespace {

constexpr int kDigitBits = 16, kNestingBits = 4;

bool Has(uint64_t mask, int i) { return (mask >> i & 1) != 0; }

absl::InlinedVector<int, 4> AxesIn(LayoutPrices::AxisMask mask) {
  absl::InlinedVector<int, 4> axes;
  for (int axis = 0; axis < LayoutPrices::kAxes; ++axis) {
    if (Has(mask, axis)) axes.push_back(axis);
  }
  return axes;
}

}  // namespace

LayoutGraph::LayoutGraph(Mesh mesh, TensorType type, std::vector<AxisLayout> splits,
                         absl::Span<const int> axes, const Mesh& priced,
                         const CollectivePrices& prices)
    : mesh_(std::move(mesh)),
      type_(std::move(type)),
      splits_(std::move(splits)),
      axes_(axes.begin(), axes.end()),
      priced_(priced),
      prices_(prices) {}

bool LayoutGraph::Before(const Distance& a, const Distance& b) {
  return std::tie(a.seconds, a.steps, a.outer_first) < std::tie(b.seconds, b.steps, b.outer_first);
}

bool LayoutGraph::After(const Entry& a, const Entry& b) {
  if (Before(a.distance, b.distance)) return false;
  return Before(b.distance, a.distance) || b.distance.order < a.distance.order;
}

LayoutGraph::AxisMask LayoutGraph::SumsOf(const MeshLayout& layout) {
  AxisMask sums = 0;
  for (int axis = 0; axis < layout.num_axes(); ++axis) {
    if (layout.axis(axis) == AxisLayout::Partial()) sums |= 1 << axis;
  }
  return sums;
}

int LayoutGraph::FindOrAddNode(const MeshLayout& layout) {
  const auto [known, is_new] = index_.try_emplace(layout, static_cast<int>(nodes_.size()));
  if (!is_new) return known->second;
  Node node;
  node.layout = layout;
  node.local = LocalShape(layout, type_.shape, mesh_);
  absl::InlinedVector<uint64_t, 8> digits(mesh_.num_axes(), 0);  // B is 0
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    const AxisLayout& along = layout.axis(axis);
    if (along.partial()) {
      node.partial |= 1 << axis;
      digits[axis] = (splits_.size() + 1) << kNestingBits;
    } else if (along.split()) {
      const auto split = std::find(splits_.begin(), splits_.end(), along);
      const uint64_t depth = [&] {
        const auto nested = layout.AxesSplitting(along.dim);
        return std::find(nested.begin(), nested.end(), axis) - nested.begin();
      }();
      digits[axis] = (split - splits_.begin() + 1) << kNestingBits | depth;
    }
  }
  for (const uint64_t digit : digits) node.code = node.code << kDigitBits | digit;
  nodes_.push_back(std::move(node));
  reached_.emplace_back();
  return known->second;
}

int LayoutGraph::SameElements(int node) {
  if (nodes_[node].same >= 0) return nodes_[node].same;
  std::vector<int>& distinct = distinct_[{nodes_[node].local, nodes_[node].partial}];
  for (const int other : distinct) {
    if (HoldSameElements(nodes_[node].layout, nodes_[other].layout, type_.shape, mesh_)) {
      return nodes_[node].same = other;
    }
  }
  distinct.push_back(node);
  return nodes_[node].same = node;
}

void LayoutGraph::AddStep(int node, Kind kind, AxisMask axes, const MeshLayout& to) {
  RedistributionStep step;
  step.kind = kind;
  step.axes = AxesIn(axes);
  step.from = nodes_[node].layout;
  step.to = to;
  Edge edge;
  edge.target = FindOrAddNode(to);
  edge.step = true;
  edge.kind = kind;
  edge.axes = axes;
  std::vector<CollectiveCall> calls =
      CollectivesOf(step, type_.dtype, nodes_[node].local, nodes_[edge.target].local, mesh_);
  for (CollectiveCall& call : calls) {
    for (int& axis : call.axes) axis = axes_[axis];
    edge.seconds += prices_.Seconds(call, priced_);
  }
  if (kind == Kind::kAllReduce || kind == Kind::kReduceScatter) {
    const AxisMask left = nodes_[node].partial & ~axes;
    for (const int axis : step.axes) edge.outer_first += std::popcount(uint32_t{left} >> axis);
  }
  nodes_[node].edges.push_back(edge);
}

void LayoutGraph::AddEquivalentLayouts(int node, int axis) {
  const MeshLayout layout = nodes_[node].layout;
  const auto add = [&](const MeshLayout& other) {
    if (other == layout || LocalShape(other, type_.shape, mesh_) != nodes_[node].local) return;
    if (!HoldSameElements(layout, other, type_.shape, mesh_)) return;
    Edge edge;
    edge.target = FindOrAddNode(other);
    nodes_[node].edges.push_back(edge);
  };
  for (const AxisLayout& split : splits_) {
    add(layout.With(axis, split));
    if (split.dim == layout.axis(axis).dim) add(layout.WithUnit(axis, split.unit));
  }
}

void LayoutGraph::AddStepsAlong(int node, int axis) {
  const MeshLayout layout = nodes_[node].layout;
  const AxisLayout along = layout.axis(axis);
  const AxisMask only = 1 << axis;
  if (along.split()) AddEquivalentLayouts(node, axis);
  if (!along.split() || layout.IsInnermost(axis)) {
    const Kind complete = along.split() ? Kind::kAllGather : Kind::kAllReduce;
    if (!along.broadcast()) {
      AddStep(node, complete, only, layout.With(axis, AxisLayout::Broadcast()));
    }
    const Kind kind = along.split()     ? Kind::kAllToAll
                      : along.partial() ? Kind::kReduceScatter
                                        : Kind::kSlice;
    for (const AxisLayout& split : splits_) {
      if (along.split() && along.dim == split.dim) continue;
      AddStep(node, kind, only, layout.With(axis, split));
    }
    const bool only_sums = SumsOf(layout) == nodes_[node].partial;
    if (only_sums && !along.partial()) {
      AddStep(node, Kind::kZeroElsewhere, only, layout.With(axis, AxisLayout::Partial()));
    }
  }
}

void LayoutGraph::AddSplitsAlongSet(int node, Kind kind, AxisMask axes, uint64_t taken) {
  const bool several_dims = std::popcount(axes) == 2;
  const MeshLayout rest = WithBroadcast(nodes_[node].layout, AxesIn(axes));
  // Dimensions are split in ascending order, so that no layout is reached twice.
  const auto add = [&](const auto& self, const MeshLayout& layout, AxisMask left, int dim) -> void {
    if (left == 0) return AddStep(node, kind, axes, layout);
    for (const int axis : AxesIn(left)) {
      for (const AxisLayout& split : splits_) {
        if (split.dim < dim || Has(taken, split.dim)) continue;
        if (!several_dims && left != axes && split.dim != dim) continue;
        self(self, layout.With(axis, split), left & ~(1 << axis), split.dim);
      }
    }
  };
  add(add, rest, axes, 0);
}

void LayoutGraph::AddStepsAlongSet(int node, AxisMask axes) {
  const MeshLayout layout = nodes_[node].layout;
  bool split = true;
  uint64_t dims = 0;
  const MeshLayout complete = WithBroadcast(layout, AxesIn(axes));
  for (const int axis : AxesIn(axes)) {
    split = split && layout.axis(axis).split();
    if (split) dims |= uint64_t{1} << layout.axis(axis).dim;
  }
  if (split && AreInnermost(layout, AxesIn(axes))) {
    AddStep(node, Kind::kAllGather, axes, complete);
    AddSplitsAlongSet(node, Kind::kAllToAll, axes, dims);
  } else if ((nodes_[node].partial & axes) == axes) {
    AddStep(node, Kind::kAllReduce, axes, complete);
    AddSplitsAlongSet(node, Kind::kReduceScatter, axes, 0);
  }
}

void LayoutGraph::Expand(int node) {
  if (nodes_[node].expanded) return;
  nodes_[node].expanded = true;
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) AddStepsAlong(node, axis);
  for (int axes = 1; axes < 1 << mesh_.num_axes(); ++axes) {
    if (!std::has_single_bit(static_cast<unsigned>(axes))) {
      AddStepsAlongSet(node, static_cast<AxisMask>(axes));
    }
  }
}

void LayoutGraph::Reach(int node, const Distance& distance, int previous, int edge) {
  Reached& reached = reached_[node];
  if (reached.search == search_) {
    if (reached.settled || !Before(distance, reached.distance)) return;
  }
  uint64_t order = 0;
  for (int shift = (mesh_.num_axes() - 1) * kDigitBits; shift >= 0; shift -= kDigitBits) {
    const uint16_t digit = static_cast<uint16_t>(nodes_[node].code >> shift);
    const bool unchanged = digit == static_cast<uint16_t>(from_code_ >> shift);
    order = order << kDigitBits | (unchanged ? 0xFFFF : digit);
  }
  reached = {search_, false, distance, previous, edge};
  reached.distance.order = order;
  queue_.push_back({reached.distance, node});
  std::push_heap(queue_.begin(), queue_.end(), After);
}

void LayoutGraph::Start(int node, AxisMask sums) {
  ++search_;
  sums_ = sums;
  from_code_ = nodes_[node].code;
  queue_.clear();
  Reach(node, {}, -1, -1);
}

int LayoutGraph::SettleNext() {
  while (!queue_.empty()) {
    const int node = queue_.front().node;
    std::pop_heap(queue_.begin(), queue_.end(), After);
    queue_.pop_back();
    if (reached_[node].settled) continue;
    reached_[node].settled = true;
    return node;
  }
  return -1;
}

void LayoutGraph::Follow(int node) {
  Expand(node);
  const Distance here = reached_[node].distance;
  const std::vector<Edge>& edges = nodes_[node].edges;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    if (edge.step && edge.kind == Kind::kZeroElsewhere && (edge.axes & sums_) == 0) continue;
    Distance distance = here;
    distance.seconds += edge.seconds;
    distance.steps += edge.step ? 1 : 0;
    distance.outer_first += edge.outer_first;
    Reach(edge.target, distance, node, static_cast<int>(i));
  }
}

std::optional<Redistribution> LayoutGraph::Find(const MeshLayout& from, const MeshLayout& to) {
  const int target = FindOrAddNode(to), same = SameElements(target);
  Start(FindOrAddNode(from), SumsOf(from) | SumsOf(to));
  int node = SettleNext();
  for (; node >= 0 && SameElements(node) != same; node = SettleNext()) Follow(node);
  if (node < 0) return std::nullopt;
  Redistribution found;
  found.seconds = reached_[node].distance.seconds;
  while (reached_[node].previous >= 0) {
    const int previous = reached_[node].previous;
    const Edge& edge = nodes_[previous].edges[reached_[node].edge];
    if (edge.step) {
      RedistributionStep step;
      step.kind = edge.kind;
      step.axes = AxesIn(edge.axes);
      step.from = nodes_[previous].layout;
      step.to = nodes_[node].layout;
      found.steps.push_back(std::move(step));
    }
    node = previous;
  }
  std::reverse(found.steps.begin(), found.steps.end());
  return found;
}

LayoutPrices& LayoutGraph::AllPrices() {
  if (prices_of_nodes_ == nodes_.size()) return *all_prices_;
  for (size_t node = 0; node < nodes_.size(); ++node) Expand(static_cast<int>(node));
  std::vector<LayoutPrices::Edges> all(nodes_.size());
  for (size_t node = 0; node < nodes_.size(); ++node) {
    SameElements(static_cast<int>(node));
    for (const Edge& edge : nodes_[node].edges) {
      if (edge.step && edge.kind == Kind::kZeroElsewhere) {
        all[node].sums.push_back({edge.target, std::countr_zero(edge.axes)});
      } else {
        all[node].edges.push_back({edge.target, edge.seconds});
      }
    }
  }
  prices_of_nodes_ = nodes_.size();
  return all_prices_.emplace(all);
}

std::vector<double> LayoutGraph::FindPrices(const MeshLayout& from,
                                            absl::Span<const MeshLayout> to) {
  const int source = FindOrAddNode(from);
  std::vector<int> targets;
  targets.reserve(to.size());
  for (const MeshLayout& target : to) targets.push_back(FindOrAddNode(target));
  LayoutPrices& prices = AllPrices();
  prices.Start(source, SumsOf(from));
  // By axes along which values may be made sums: the price of each set of nodes that hold the same
  // elements, at the first of them.
  absl::flat_hash_map<AxisMask, std::vector<double>> by_sums;
  std::vector<double> found;
  found.reserve(to.size());
  for (size_t i = 0; i < to.size(); ++i) {
    const AxisMask sums = SumsOf(from) | SumsOf(to[i]);
    std::vector<double>& all = by_sums[sums];
    if (all.empty()) {
      all = prices.Find(sums);
      for (size_t node = 0; node < all.size(); ++node) {
        double& first = all[nodes_[node].same];
        first = std::min(first, all[node]);
      }
    }
    found.push_back(all[nodes_[targets[i]].same]);
  }
  return found;
}

}  // namespace tessera
