// The graphs in which the redistributions on one mesh are found.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPHS_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/layout_graph.h"
#include "core/layout/redistribution/moving_axes.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/tensor/shape.h"

namespace tessera {

// The graphs in which the redistributions on one mesh are found: one for each type, set of moving
// axes and units. They are kept; what is found in them is not.
//
// Not thread-safe.
class LayoutGraphs {
 public:
  // The dimensions and units of splits in other units than 1, in ascending order.
  using Units = std::vector<std::pair<int, int64_t>>;

  // `mesh` and the prices must outlive the object.
  LayoutGraphs(const Mesh& mesh, const PathPrices& prices) : mesh_(mesh), prices_(prices) {}

  // Returns what RedistributionFinder::Find would return, if no steps were stated; nullopt if no
  // steps lead to `to`.
  std::optional<Redistribution> Find(const MeshLayout& from, const MeshLayout& to,
                                     const TensorType& type);

  // Returns the units of a layout.
  static Units UnitsOf(const MeshLayout& layout);
  // Returns the graph of the layouts of a type along the axes that move, of which there are at most
  // MovingAxes::kMost, with splits in units of 1 and in `units`.
  LayoutGraph& For(const MovingAxes& moving, const Units& units, const TensorType& type);

 private:
  // The moving axes, and what the others leave of the type.
  using Key = std::tuple<std::vector<int>, Shape, DType, Units>;

  const Mesh& mesh_;
  const PathPrices prices_;
  absl::flat_hash_map<Key, std::unique_ptr<LayoutGraph>> graphs_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPHS_H_
