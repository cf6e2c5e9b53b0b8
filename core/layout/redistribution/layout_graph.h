// The graph in which redistributions of one type are shortest paths.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPH_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPH_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/layout_prices.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/traffic/collective_call.h"
#include "core/tensor/shape.h"

namespace tessera {

// Nodes are layouts of a type, and edges are steps with their prices, or cost nothing because two
// layouts hold the same elements. Nodes and edges are made when a search first reaches them, and
// are the same for all searches. No result depends on earlier searches.
//
// Beside the steps along one axis there are those along several: each collective that completes or
// gathers along a set of axes; a reduce-scatter and an all-to-all to any splits along two axes, and
// along more axes to splits of one dimension, in any nesting.
//
// Not thread-safe.
class LayoutGraph {
 public:
  // `mesh` has at most four axes, all of more than one rank, and `splits` lists the splits that
  // layouts may have. The price of a call along an axis i is that of a call along axis axes[i] of
  // `priced`. `priced` and `prices` must outlive the object.
  LayoutGraph(Mesh mesh, TensorType type, std::vector<AxisLayout> splits,
              absl::Span<const int> axes, const Mesh& priced, const CollectivePrices& prices);

  // Returns the cheapest redistribution between layouts of the graph; nullopt if there is none.
  std::optional<Redistribution> Find(const MeshLayout& from, const MeshLayout& to);
  // Returns the price of the cheapest redistribution to each of several layouts, in seconds;
  // infinity if there is none.
  std::vector<double> FindPrices(const MeshLayout& from, absl::Span<const MeshLayout> to);

 private:
  using Kind = RedistributionStep::Kind;
  using AxisMask = LayoutPrices::AxisMask;

  struct Edge {
    int target = 0;
    double seconds = 0;
    bool step = false;  // otherwise both ends hold the same elements
    Kind kind = Kind::kSlice;
    AxisMask axes = 0;
    // The number of pairs of a summed axis and an axis within it that is not summed yet.
    uint8_t outer_first = 0;
  };
  struct Node {
    MeshLayout layout;
    Shape local;           // its padded local shape
    uint64_t code = 0;     // 16 bits for each axis, the first one's highest: its layout and nesting
    AxisMask partial = 0;  // axes that hold partial values
    int same = -1;         // the first node that was found to hold the same elements; -1: not known
    bool expanded = false;
    std::vector<Edge> edges;
  };
  struct Distance {
    double seconds = 0;
    int steps = 0;
    // The number of sums along an axis before a sum along an axis within it. Fewer is better:
    // consecutive ranks are then summed first, as in a reduction over all axes, so that both give
    // the same bits.
    int outer_first = 0;
    // Among equal distances, the one to the node that changes the first axes is taken first.
    uint64_t order = 0;
  };
  // The state of a node in the current search.
  struct Reached {
    int search = 0;  // another number: not reached yet
    bool settled = false;
    Distance distance;
    int previous = -1, edge = -1;
  };
  struct Entry {
    Distance distance;
    int node;
  };
  static bool Before(const Distance& a, const Distance& b);
  static bool After(const Entry& a, const Entry& b);

  int FindOrAddNode(const MeshLayout& layout);
  // Returns the first node that holds the same elements.
  int SameElements(int node);

  // Add the edges of a node, if it has none yet.
  void Expand(int node);
  void AddStepsAlong(int node, int axis);
  void AddStepsAlongSet(int node, AxisMask axes);
  // Adds edges to layouts that split dimensions other than those in `taken` along the axes.
  void AddSplitsAlongSet(int node, Kind kind, AxisMask axes, uint64_t taken);
  void AddStep(int node, Kind kind, AxisMask axes, const MeshLayout& to);
  // Adds the edges to equivalent layouts, in which another split is the innermost one or a unit
  // differs.
  void AddEquivalentLayouts(int node, int axis);

  // Starts a search. Values may be made sums along the axes `sums` only.
  void Start(int node, AxisMask sums);
  // Settles the next node and returns it; -1 if none is left.
  int SettleNext();
  void Reach(int node, const Distance& distance, int previous, int edge);
  // Reaches the neighbours of a settled node.
  void Follow(int node);
  // Returns the prices of all edges of all nodes.
  LayoutPrices& AllPrices();
  // Returns the axes along which a layout is a sum.
  static AxisMask SumsOf(const MeshLayout& layout);

  const Mesh mesh_;
  const TensorType type_;
  const std::vector<AxisLayout> splits_;
  const std::vector<int> axes_;
  const Mesh& priced_;
  const CollectivePrices& prices_;

  std::vector<Node> nodes_;
  absl::flat_hash_map<MeshLayout, int> index_;
  // Nodes of which no two hold the same elements, by local shape and partial axes.
  absl::flat_hash_map<std::pair<Shape, AxisMask>, std::vector<int>> distinct_;

  int search_ = 0;
  AxisMask sums_ = 0;
  uint64_t from_code_ = 0;
  std::vector<Reached> reached_;  // by node
  std::vector<Entry> queue_;      // a heap

  std::optional<LayoutPrices> all_prices_;
  size_t prices_of_nodes_ = 0;  // the number of nodes that it has
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPH_H_
