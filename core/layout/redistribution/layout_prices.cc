#include "core/layout/redistribution/layout_prices.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace tessera {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();
constexpr int kNoNode = -1;

// Returns the edges without those that shortest paths do not need: those that are dearer than two
// others, and those that cost as much as two others that are cheaper each.
std::vector<LayoutPrices::Edges> WithoutDearEdges(const std::vector<LayoutPrices::Edges>& all) {
  constexpr double kRounding = 1e-12;  // of sums of the same prices in different orders
  std::vector<LayoutPrices::Edges> kept(all.size());
  // By target: the least price of two edges, and that of two edges neither of which is free.
  std::vector<double> by_two(all.size(), kNone), by_two_dear(all.size(), kNone);
  for (size_t node = 0; node < all.size(); ++node) {
    const std::vector<LayoutPrices::Edge>& edges = all[node].edges;
    for (const LayoutPrices::Edge& first : edges) {
      for (const LayoutPrices::Edge& second : all[first.target].edges) {
        const double seconds = first.seconds + second.seconds;
        const bool dear = first.seconds > 0 && second.seconds > 0;
        double& least = dear ? by_two_dear[second.target] : by_two[second.target];
        least = std::min(least, seconds);
      }
    }
    kept[node].sums = all[node].sums;
    for (const LayoutPrices::Edge& edge : edges) {
      if (by_two[edge.target] < edge.seconds * (1 - kRounding)) continue;
      if (edge.seconds > 0 && by_two_dear[edge.target] <= edge.seconds * (1 + kRounding)) continue;
      kept[node].edges.push_back(edge);
    }
    for (const LayoutPrices::Edge& first : edges) {
      for (const LayoutPrices::Edge& second : all[first.target].edges) {
        by_two[second.target] = by_two_dear[second.target] = kNone;
      }
    }
  }
  return kept;
}

}  // namespace

LayoutPrices::LayoutPrices(const std::vector<Edges>& edges) {
  for (const Edges& of_node : WithoutDearEdges(edges)) {
    first_edge_.push_back(edges_.size());
    edges_.insert(edges_.end(), of_node.edges.begin(), of_node.edges.end());
  }
  first_edge_.push_back(edges_.size());
  for (std::vector<int>& along_axis : sums_) along_axis.assign(edges.size(), kNoNode);
  for (size_t node = 0; node < edges.size(); ++node) {
    for (const SumEdge& edge : edges[node].sums) sums_[edge.axis][node] = edge.target;
  }
}

void LayoutPrices::Reach(int node, double seconds, std::vector<double>& all) {
  all[node] = seconds;
  queue_.emplace_back(seconds, node);
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

void LayoutPrices::ReachSum(int axis, int node, std::vector<double>& all) {
  const int target = sums_[axis][node];
  if (target != kNoNode && all[node] < all[target]) Reach(target, all[node], all);
}

void LayoutPrices::Settle(AxisMask sums, std::vector<double>& all) {
  while (!queue_.empty()) {
    const auto [seconds, node] = queue_.front();
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    queue_.pop_back();
    if (seconds > all[node]) continue;  // it was reached again
    for (size_t i = first_edge_[node]; i < first_edge_[node + 1]; ++i) {
      const double next = seconds + edges_[i].seconds;
      if (next < all[edges_[i].target]) Reach(edges_[i].target, next, all);
    }
    for (int axis = 0; axis < kAxes; ++axis) {
      if ((sums >> axis & 1) != 0) ReachSum(axis, node, all);
    }
  }
}

void LayoutPrices::Start(int source, AxisMask sums) {
  found_.clear();
  first_ = sums;
  std::vector<double>& all = found_[sums];
  all.assign(first_edge_.size() - 1, kNone);
  Reach(source, 0, all);
  Settle(sums, all);
}

const std::vector<double>& LayoutPrices::Find(AxisMask sums) {
  if (const auto known = found_.find(sums); known != found_.end()) return known->second;
  const auto last = std::bit_floor(static_cast<unsigned>(sums & ~first_));
  const int added = std::countr_zero(last);
  std::vector<double> all = Find(static_cast<AxisMask>(sums & ~last));
  for (size_t node = 0; node < all.size(); ++node) ReachSum(added, static_cast<int>(node), all);
  Settle(sums, all);
  return found_[sums] = std::move(all);
}

}  // namespace tessera
