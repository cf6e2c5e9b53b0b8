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
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/traffic/collective_call.h"
#include "core/tensor/shape.h"

namespace tessera {

// Paths are the cheapest by some prices, and may be priced by others.
struct PathPrices {
  const CollectivePrices& chosen_by;
  const CollectivePrices& priced_by;
};

// Nodes are layouts of a type, and edges are steps with their prices, or cost nothing because two
// layouts hold the same elements. Nodes and edges are made when a search first reaches them, or all
// at once for a large table; then edges that no search needs are removed. No result depends on
// earlier searches.
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
  // `called`. `called` and `prices` must outlive the object.
  LayoutGraph(Mesh mesh, TensorType type, std::vector<AxisLayout> splits,
              absl::Span<const int> axes, const Mesh& called, const PathPrices& prices);

  // Returns the cheapest redistribution between layouts of the graph; nullopt if there is none. Its
  // seconds are those of prices.chosen_by.
  std::optional<Redistribution> Find(const MeshLayout& from, const MeshLayout& to);
  // Returns the seconds, by prices.priced_by, of what Find returns from each layout to each of
  // several: those from the first one, then those from the second one, and so on. Infinity if there
  // is none.
  std::vector<double> FindPrices(absl::Span<const MeshLayout> from,
                                 absl::Span<const MeshLayout> to);

 private:
  using Kind = RedistributionStep::Kind;
  using AxisMask = uint8_t;  // bit i: axis i

  // The part of an edge that searches read.
  struct Edge {
    double seconds = 0;  // by chosen_by
    int target = 0;
    uint8_t steps = 0;  // 0: both ends hold the same elements
    // The number of pairs of a summed axis and an axis within it that is not summed yet.
    uint8_t outer_first = 0;
    AxisMask sums = 0;  // the axis along which the step makes the value a sum
  };
  // The rest of it.
  struct Step {
    double priced = 0;  // by priced_by
    Kind kind = Kind::kSlice;
    AxisMask axes = 0;
  };
  struct Node {
    MeshLayout layout;
    Shape local;           // its padded local shape
    uint64_t code = 0;     // 16 bits for each axis, the first one's highest: its layout and nesting
    AxisMask partial = 0;  // axes that hold partial values
    int same = -1;         // the first node that was found to hold the same elements; -1: not known
    bool expanded = false;
    std::vector<Edge> edges;
    std::vector<Step> steps;  // by edge
  };
  // Decides between paths with the same price. Less is better.
  struct Tie {
    uint16_t steps = 0;
    // The number of sums along an axis before a sum along an axis within it: consecutive ranks are
    // summed first, as in a reduction over all axes, so that both give the same bits.
    uint16_t outer_first = 0;

    friend bool operator==(const Tie& a, const Tie& b) { return a.Both() == b.Both(); }
    friend bool operator<(const Tie& a, const Tie& b) { return a.Both() < b.Both(); }
    uint32_t Both() const { return uint32_t{steps} << 16 | outer_first; }
  };
  // The best path to a node that the current search knows. Its seconds are in seconds_.
  struct Reached {
    Tie tie;
    int previous = -1, edge = -1;
    double priced = 0;
  };
  // A node that was reached.
  struct Entry {
    double seconds = 0;
    Tie tie;
    int node = 0;
    // Among equal paths, the one to the node that changes the first axes is taken first.
    uint64_t order = 0;

    bool operator>(const Entry& other) const {
      if (seconds != other.seconds) return seconds > other.seconds;
      if (!(tie == other.tie)) return other.tie < tie;
      return order > other.order;
    }
  };
  // A set of nodes that hold the same elements, in the last search that looked for it.
  struct Wanted {
    int search = 0;
    double seconds = 0;  // infinity: it was not settled
  };

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
  // Makes a path to `node` known that is better than the one that was.
  void Reach(int node, double seconds, const Reached& reached);
  // Returns a node's Entry::order in the current search.
  uint64_t OrderOf(int node) const;
  // Reaches the neighbours of a settled node.
  void Follow(int node);
  // Makes all nodes and edges, unless there are too many, and removes the edges that are on no
  // shortest path because two others are cheaper.
  void Complete();
  // Finds the prices of the sets of nodes in `sets`, which are given by their first nodes.
  void FindPrices(int from, AxisMask sums, absl::Span<const int> sets);
  // Returns the axes along which a layout is a sum.
  static AxisMask SumsOf(const MeshLayout& layout);

  const Mesh mesh_;
  const TensorType type_;
  const std::vector<AxisLayout> splits_;
  const std::vector<int> axes_;
  const Mesh& called_;
  const PathPrices prices_;

  std::vector<Node> nodes_;
  absl::flat_hash_map<MeshLayout, int> index_;
  // Nodes of which no two hold the same elements, by local shape and partial axes.
  absl::flat_hash_map<std::pair<Shape, AxisMask>, std::vector<int>> distinct_;

  size_t complete_nodes_ = 0;  // the number of nodes when all were made
  int search_ = 0;             // counts calls of FindPrices
  AxisMask sums_ = 0;
  uint64_t from_code_ = 0;
  std::vector<double> seconds_;   // by node; infinity: not reached yet
  std::vector<Reached> reached_;  // by node
  std::vector<Wanted> wanted_;    // by the first node
  std::vector<Entry> queue_;      // a heap
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPH_H_
