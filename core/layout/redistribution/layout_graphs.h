// The graphs in which the redistributions on one mesh are found.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPHS_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/layout_graph.h"
#include "core/layout/redistribution/moving_axes.h"
#include "core/tensor/shape.h"

namespace tessera {

// Not thread-safe.
class LayoutGraphs {
 public:
  // `mesh` and the prices must outlive the object.
  LayoutGraphs(const Mesh& mesh, const PathPrices& prices) : mesh_(mesh), prices_(prices) {}

  // Returns the graph of the layouts of a type along the axes that move, of which there are at most
  // MovingAxes::kMost, with splits in units of 1 and in those of `from` and `to`.
  LayoutGraph& For(const MovingAxes& moving, const MeshLayout& from, const MeshLayout& to,
                   const TensorType& type);

 private:
  // The moving axes, what the others leave of the type, and the splits in other units than 1.
  using Key = std::tuple<std::vector<int>, Shape, DType, std::vector<std::pair<int, int64_t>>>;

  const Mesh& mesh_;
  const PathPrices prices_;
  absl::flat_hash_map<Key, std::unique_ptr<LayoutGraph>> graphs_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_LAYOUT_GRAPHS_H_
