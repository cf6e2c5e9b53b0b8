#include "core/layout/redistribution/layout_prices.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

namespace tessera {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// Returns the edges without those that are dearer than two others, or than another to the same
// node. Such an edge is on no shortest path. Of edges that cost the same, all are kept.
std::vector<LayoutPrices::Edges> WithoutDearEdges(const std::vector<LayoutPrices::Edges>& all) {
  std::vector<LayoutPrices::Edges> kept(all.size());
  std::vector<double> by_two(all.size(), kNone);
  for (size_t node = 0; node < all.size(); ++node) {
    const std::vector<LayoutPrices::Edge>& edges = all[node].edges;
    for (const LayoutPrices::Edge& edge : edges) {
      double& known = by_two[edge.target];
      known = std::min(known, edge.seconds);
    }
    for (const LayoutPrices::Edge& first : edges) {
      for (const LayoutPrices::Edge& second : all[first.target].edges) {
        double& known = by_two[second.target];
        known = std::min(known, first.seconds + second.seconds);
      }
    }
    constexpr double kRounding = 1e-9;
    kept[node].sums = all[node].sums;
    for (const LayoutPrices::Edge& edge : edges) {
      if (edge.seconds <= by_two[edge.target] * (1 + kRounding)) kept[node].edges.push_back(edge);
    }
    for (const LayoutPrices::Edge& first : edges) {
      by_two[first.target] = kNone;
      for (const LayoutPrices::Edge& second : all[first.target].edges) {
        by_two[second.target] = kNone;
      }
    }
  }
  return kept;
}

}  // namespace

LayoutPrices::LayoutPrices(std::vector<Edges> edges) : edges_(WithoutDearEdges(edges)) {}

void LayoutPrices::Reach(int node, double seconds, std::vector<double>& all) {
  if (seconds >= all[node]) return;
  all[node] = seconds;
  queue_.emplace_back(seconds, node);
  std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
}

void LayoutPrices::Settle(AxisMask sums, std::vector<double>& all) {
  while (!queue_.empty()) {
    const auto [seconds, node] = queue_.front();
    std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
    queue_.pop_back();
    if (seconds > all[node]) continue;  // it was reached again
    for (const Edge& edge : edges_[node].edges) Reach(edge.target, seconds + edge.seconds, all);
    for (const SumEdge& edge : edges_[node].sums) {
      if ((sums >> edge.axis & 1) != 0) Reach(edge.target, seconds, all);
    }
  }
}

void LayoutPrices::Start(int source, AxisMask sums) {
  found_.clear();
  first_ = sums;
  std::vector<double>& all = found_[sums];
  all.assign(edges_.size(), kNone);
  Reach(source, 0, all);
  Settle(sums, all);
}

const std::vector<double>& LayoutPrices::Find(AxisMask sums) {
  if (const auto known = found_.find(sums); known != found_.end()) return known->second;
  const int added = std::bit_width(static_cast<unsigned>(sums & ~first_)) - 1;
  std::vector<double> all = Find(static_cast<AxisMask>(sums & ~(1 << added)));
  for (size_t node = 0; node < edges_.size(); ++node) {
    for (const SumEdge& edge : edges_[node].sums) {
      if (edge.axis == added) Reach(edge.target, all[node], all);
    }
  }
  Settle(sums, all);
  return found_[sums] = std::move(all);
}

}  // namespace tessera
