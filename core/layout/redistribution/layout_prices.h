// The prices of the shortest paths from one layout to all others.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_PRICES_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_PRICES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace tessera {

// A graph of layouts with the prices of its edges, for searches that need prices and no steps.
// Values may be made sums along certain axes only, which differ from target to target. So a search
// finds the paths on which no value is made a sum first, and then adds one axis after the other: of
// the paths that it knows, few become cheaper. Edges that are dearer than two others are left out.
//
// Not thread-safe.
class LayoutPrices {
 public:
  using AxisMask = uint8_t;  // bit i: axis i

  struct Edge {
    int target = 0;
    double seconds = 0;
  };
  // A step that makes a value a sum along an axis, which costs nothing.
  struct SumEdge {
    int target = 0;
    int axis = 0;
  };
  struct Edges {
    std::vector<Edge> edges;
    std::vector<SumEdge> sums;
  };

  // `edges` has those of each node.
  explicit LayoutPrices(std::vector<Edges> edges);

  // Starts with the node `source`, and forgets what was found from another one. Values may be made
  // sums along the axes in `sums`.
  void Start(int source, AxisMask sums);
  // Returns the seconds of the shortest path to each node if values may be made sums along the axes
  // in `sums`, which include those of Start(); infinity if there is none. The result is valid until
  // Start() is called.
  const std::vector<double>& Find(AxisMask sums);

 private:
  using Entry = std::pair<double, int>;  // seconds, node

  // Lowers `seconds` of a node and queues it, if that is less.
  void Reach(int node, double seconds, std::vector<double>& all);
  // Follows edges from queued nodes until none becomes cheaper.
  void Settle(AxisMask sums, std::vector<double>& all);

  std::vector<Edges> edges_;
  AxisMask first_ = 0;
  absl::flat_hash_map<AxisMask, std::vector<double>> found_;
  std::vector<Entry> queue_;  // a heap
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_PRICES_H_
