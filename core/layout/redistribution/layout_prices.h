// The prices of the shortest paths from one layout to all others.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_PRICES_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_PRICES_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tessera {

// A graph of layouts with the prices of its edges, for searches that need prices and no steps.
// Values may be made sums along certain axes only, which differ from target to target. So a search
// finds the paths on which no value is made a sum first, and then adds one axis after the other: of
// the paths that it knows, few become cheaper. Edges that two others can replace are left out.
//
// Not thread-safe.
class LayoutPrices {
 public:
  static constexpr int kAxes = 8;
  using AxisMask = uint8_t;  // bit i: axis i

  struct Edge {
    int target = 0;
    double seconds = 0;
  };
  // A step that makes a value a sum along an axis, which costs nothing. A node has at most one for
  // each axis.
  struct SumEdge {
    int target = 0;
    int axis = 0;
  };
  struct Edges {
    std::vector<Edge> edges;
    std::vector<SumEdge> sums;
  };

  // `edges` has those of each node.
  explicit LayoutPrices(const std::vector<Edges>& edges);

  // Starts with the node `source`, and forgets what was found from another one. Values may be made
  // sums along the axes in `sums`.
  void Start(int source, AxisMask sums);
  // Returns the seconds of the shortest path to each node if values may be made sums along the axes
  // in `sums`, which include those of Start(); infinity if there is none. The result is valid until
  // Start() is called.
  const std::vector<double>& Find(AxisMask sums);

 private:
  using Entry = std::pair<double, int>;  // seconds, node

  // Lowers the seconds of a node and queues it.
  void Reach(int node, double seconds, std::vector<double>& all);
  // Follows the step from a node that makes the value a sum along the axis.
  void ReachSum(int axis, int node, std::vector<double>& all);
  // Follows edges from queued nodes until none becomes cheaper.
  void Settle(AxisMask sums, std::vector<double>& all);

  // The edges of all nodes in one array, and where those of each node begin. The end is the last.
  std::vector<Edge> edges_;
  std::vector<size_t> first_edge_;
  std::array<std::vector<int>, kAxes> sums_;  // by axis and node: the target, or -1
  AxisMask first_ = 0;
  absl::flat_hash_map<AxisMask, std::vector<double>> found_;
  std::vector<Entry> queue_;  // a heap
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_PRICES_H_
