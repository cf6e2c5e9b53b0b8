#include "core/layout/redistribution/layout_graph.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <iterator>
#include <limits>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "core/layout/redistribution/moving_axes.h"

namespace tessera {
namespace {

constexpr double kNotReached = std::numeric_limits<double>::infinity();
constexpr int kDigitBits = 16, kNestingBits = 4;

bool Has(uint64_t mask, int i) { return (mask >> i & 1) != 0; }

absl::InlinedVector<int, 4> AxesIn(uint8_t mask) {
  absl::InlinedVector<int, 4> axes;
  for (int axis = 0; axis < MovingAxes::kMost; ++axis) {
    if (Has(mask, axis)) axes.push_back(axis);
  }
  return axes;
}

}  // namespace

LayoutGraph::LayoutGraph(Mesh mesh, TensorType type, std::vector<AxisLayout> splits,
                         absl::Span<const int> axes, const Mesh& called, const PathPrices& prices)
    : mesh_(std::move(mesh)),
      type_(std::move(type)),
      splits_(std::move(splits)),
      axes_(axes.begin(), axes.end()),
      called_(called),
      prices_(prices) {}

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
  seconds_.push_back(kNotReached);
  reached_.emplace_back();
  wanted_.emplace_back();
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
  edge.steps = 1;
  if (kind == Kind::kZeroElsewhere) edge.sums = axes;
  double priced = 0;
  std::vector<CollectiveCall> calls =
      CollectivesOf(step, type_.dtype, nodes_[node].local, nodes_[edge.target].local, mesh_);
  for (CollectiveCall& call : calls) {
    for (int& axis : call.axes) axis = axes_[axis];
    edge.seconds += prices_.chosen_by.Seconds(call, called_);
    priced += prices_.priced_by.Seconds(call, called_);
  }
  if (kind == Kind::kAllReduce || kind == Kind::kReduceScatter) {
    const AxisMask left = nodes_[node].partial & ~axes;
    for (const int axis : step.axes) edge.outer_first += std::popcount(uint32_t{left} >> axis);
  }
  nodes_[node].edges.push_back(edge);
  nodes_[node].steps.push_back({priced, kind, axes});
}

void LayoutGraph::AddEquivalentLayouts(int node, int axis) {
  const MeshLayout layout = nodes_[node].layout;
  const auto add = [&](const MeshLayout& other) {
    if (other == layout || LocalShape(other, type_.shape, mesh_) != nodes_[node].local) return;
    if (!HoldSameElements(layout, other, type_.shape, mesh_)) return;
    Edge edge;
    edge.target = FindOrAddNode(other);
    nodes_[node].edges.push_back(edge);
    nodes_[node].steps.emplace_back();
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

uint64_t LayoutGraph::OrderOf(int node) const {
  uint64_t order = 0;
  for (int shift = (mesh_.num_axes() - 1) * kDigitBits; shift >= 0; shift -= kDigitBits) {
    const uint16_t digit = static_cast<uint16_t>(nodes_[node].code >> shift);
    const bool unchanged = digit == static_cast<uint16_t>(from_code_ >> shift);
    order = order << kDigitBits | (unchanged ? 0xFFFF : digit);
  }
  return order;
}

void LayoutGraph::Reach(int node, double seconds, const Reached& reached) {
  seconds_[node] = seconds;
  reached_[node] = reached;
  queue_.push_back({seconds, reached.tie, node, OrderOf(node)});
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

void LayoutGraph::Start(int node, AxisMask sums) {
  sums_ = sums;
  from_code_ = nodes_[node].code;
  absl::c_fill(seconds_, kNotReached);
  queue_.clear();
  Reach(node, 0, {});
}

int LayoutGraph::SettleNext() {
  while (!queue_.empty()) {
    const Entry entry = queue_.front();
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    queue_.pop_back();
    const int node = entry.node;
    if (entry.seconds == seconds_[node] && entry.tie == reached_[node].tie) return node;
  }
  return -1;
}

void LayoutGraph::Follow(int node) {
  Expand(node);
  const double here = seconds_[node];
  const Reached path = reached_[node];
  const std::vector<Edge>& edges = nodes_[node].edges;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    const double seconds = here + edge.seconds;
    if (seconds > seconds_[edge.target] || (edge.sums & ~sums_) != 0) continue;
    const Tie tie = {static_cast<uint16_t>(path.tie.steps + edge.steps),
                     static_cast<uint16_t>(path.tie.outer_first + edge.outer_first)};
    if (seconds == seconds_[edge.target] && !(tie < reached_[edge.target].tie)) continue;
    Reach(edge.target, seconds,
          {tie, node, static_cast<int>(i), path.priced + nodes_[node].steps[i].priced});
  }
}

std::optional<Redistribution> LayoutGraph::Find(const MeshLayout& from, const MeshLayout& to) {
  const int target = FindOrAddNode(to), same = SameElements(target);
  Start(FindOrAddNode(from), SumsOf(from) | SumsOf(to));
  int node = SettleNext();
  for (; node >= 0 && SameElements(node) != same; node = SettleNext()) Follow(node);
  if (node < 0) return std::nullopt;
  Redistribution found;
  found.seconds = seconds_[node];
  while (reached_[node].previous >= 0) {
    const int previous = reached_[node].previous, edge = reached_[node].edge;
    if (nodes_[previous].edges[edge].steps > 0) {
      RedistributionStep step;
      step.kind = nodes_[previous].steps[edge].kind;
      step.axes = AxesIn(nodes_[previous].steps[edge].axes);
      step.from = nodes_[previous].layout;
      step.to = nodes_[node].layout;
      found.steps.push_back(std::move(step));
    }
    node = previous;
  }
  std::reverse(found.steps.begin(), found.steps.end());
  return found;
}

void LayoutGraph::Complete() {
  constexpr size_t kMostNodes = 4096;  // graphs of splits in many units are larger
  constexpr double kRounding = 1e-6;   // far above that of sums of prices
  if (complete_nodes_ == nodes_.size()) return;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_.size() > kMostNodes) return;
    Expand(static_cast<int>(node));
  }
  complete_nodes_ = nodes_.size();
  std::vector<double> by_two(nodes_.size(), kNotReached);  // by target: the cheapest two edges
  std::vector<int> targets;
  for (Node& node : nodes_) {
    for (const Edge& first : node.edges) {
      if (first.sums != 0) continue;
      for (const Edge& second : nodes_[first.target].edges) {
        if (second.sums != 0) continue;
        double& least = by_two[second.target];
        if (least == kNotReached) targets.push_back(second.target);
        least = std::min(least, first.seconds + second.seconds);
      }
    }
    size_t kept = 0;
    for (size_t i = 0; i < node.edges.size(); ++i) {
      if (by_two[node.edges[i].target] < node.edges[i].seconds * (1 - kRounding)) continue;
      node.edges[kept] = node.edges[i];
      node.steps[kept] = node.steps[i];
      ++kept;
    }
    node.edges.resize(kept);
    node.steps.resize(kept);
    for (const int target : targets) by_two[target] = kNotReached;
    targets.clear();
  }
}

void LayoutGraph::FindPrices(int from, AxisMask sums, absl::Span<const int> sets) {
  ++search_;
  Start(from, sums);
  int missing = 0;
  for (const int set : sets) {
    if (wanted_[set].search == search_) continue;
    wanted_[set] = {search_, kNotReached};
    ++missing;
  }
  while (missing > 0) {
    const int node = SettleNext();
    if (node < 0) return;
    Wanted& wanted = wanted_[SameElements(node)];
    if (wanted.search == search_ && wanted.seconds == kNotReached) {
      wanted.seconds = reached_[node].priced;
      --missing;
    }
    Follow(node);
  }
}

std::vector<double> LayoutGraph::FindPrices(absl::Span<const MeshLayout> from,
                                            absl::Span<const MeshLayout> to) {
  // By the axes along which targets are sums: their positions in `to`, and their sets of nodes.
  struct Targets {
    std::vector<size_t> positions;
    std::vector<int> sets;
  };
  std::map<AxisMask, Targets> by_sums;
  for (size_t i = 0; i < to.size(); ++i) {
    Targets& targets = by_sums[SumsOf(to[i])];
    targets.positions.push_back(i);
    targets.sets.push_back(SameElements(FindOrAddNode(to[i])));
  }
  constexpr size_t kManySearches = 8;  // they take longer than Complete does
  if (from.size() >= kManySearches) Complete();
  std::vector<double> prices(from.size() * to.size());
  for (size_t row = 0; row < from.size(); ++row) {
    const int source = FindOrAddNode(from[row]);
    std::map<AxisMask, std::vector<const Targets*>> by_allowed;
    for (const auto& [sums, targets] : by_sums) {
      by_allowed[SumsOf(from[row]) | sums].push_back(&targets);
    }
    for (const auto& [allowed, all] : by_allowed) {
      std::vector<int> sets;
      for (const Targets* targets : all) absl::c_copy(targets->sets, std::back_inserter(sets));
      FindPrices(source, allowed, sets);
      for (const Targets* targets : all) {
        for (size_t i = 0; i < targets->sets.size(); ++i) {
          prices[row * to.size() + targets->positions[i]] = wanted_[targets->sets[i]].seconds;
        }
      }
    }
  }
  return prices;
}

}  // namespace tessera
