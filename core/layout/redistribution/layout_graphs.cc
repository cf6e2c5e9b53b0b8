#include "core/layout/redistribution/layout_graphs.h"

#include <algorithm>

namespace tessera {

LayoutGraph& LayoutGraphs::For(const MovingAxes& moving, const MeshLayout& from,
                               const MeshLayout& to, const TensorType& type) {
  Key key(std::vector<int>(moving.axes().begin(), moving.axes().end()),
          moving.LocalShape(type.shape, mesh_), type.dtype, {});
  std::vector<std::pair<int, int64_t>>& units = std::get<3>(key);
  for (const MeshLayout* end : {&from, &to}) {
    for (const int axis : moving.axes()) {
      const AxisLayout& along = end->axis(axis);
      if (along.split() && along.unit != 1) units.emplace_back(along.dim, along.unit);
    }
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  std::unique_ptr<LayoutGraph>& graph = graphs_[key];
  if (graph == nullptr) {
    std::vector<AxisLayout> splits;
    for (int dim = 0; dim < static_cast<int>(type.shape.size()); ++dim) {
      splits.push_back(AxisLayout::Split(dim));
    }
    for (const auto& [dim, unit] : units) splits.push_back(AxisLayout::Split(dim, unit));
    graph = std::make_unique<LayoutGraph>(moving.Submesh(mesh_),
                                          TensorType{type.dtype, std::get<1>(key)},
                                          std::move(splits), moving.axes(), mesh_, prices_);
  }
  return *graph;
}

}  // namespace tessera
