#include "core/layout/redistribution/layout_graphs.h"

#include <algorithm>
#include <iterator>

#include "absl/algorithm/container.h"
#include "core/layout/redistribution/gather_and_split.h"

namespace tessera {
namespace {

void SortDistinct(LayoutGraphs::Units& units) {
  absl::c_sort(units);
  units.erase(std::unique(units.begin(), units.end()), units.end());
}

}  // namespace

std::optional<Redistribution> LayoutGraphs::Find(const MeshLayout& from, const MeshLayout& to,
                                                 const TensorType& type) {
  const MovingAxes moving(from, to, mesh_);
  const MeshLayout source = moving.Select(from), target = moving.Select(to);
  std::optional<Redistribution> path;
  if (moving.axes().size() <= MovingAxes::kMost) {
    Units units = UnitsOf(source);
    absl::c_copy(UnitsOf(target), std::back_inserter(units));
    path = For(moving, units, type).Find(source, target);
  } else if (HoldSameElements(from, to, type.shape, mesh_)) {
    path.emplace();
  } else {
    path = GatherAndSplit(source, target, moving.Submesh(mesh_));
  }
  if (!path.has_value()) return path;
  for (RedistributionStep& step : path->steps) step = moving.Restore(step);
  if (moving.axes().size() > MovingAxes::kMost) {
    path->seconds = SecondsOf(path->steps, type, mesh_, prices_.chosen_by);
  }
  return path;
}

LayoutGraphs::Units LayoutGraphs::UnitsOf(const MeshLayout& layout) {
  Units units;
  for (const AxisLayout& along : layout.axes()) {
    if (along.split() && along.unit != 1) units.emplace_back(along.dim, along.unit);
  }
  SortDistinct(units);
  return units;
}

LayoutGraph& LayoutGraphs::For(const MovingAxes& moving, const Units& units,
                               const TensorType& type) {
  Key key(std::vector<int>(moving.axes().begin(), moving.axes().end()),
          moving.LocalShape(type.shape, mesh_), type.dtype, units);
  SortDistinct(std::get<Units>(key));
  std::unique_ptr<LayoutGraph>& graph = graphs_[key];
  if (graph == nullptr) {
    std::vector<AxisLayout> splits;
    for (int dim = 0; dim < static_cast<int>(type.shape.size()); ++dim) {
      splits.push_back(AxisLayout::Split(dim));
    }
    for (const auto& [dim, unit] : std::get<Units>(key)) {
      splits.push_back(AxisLayout::Split(dim, unit));
    }
    graph = std::make_unique<LayoutGraph>(moving.Submesh(mesh_),
                                          TensorType{type.dtype, std::get<Shape>(key)},
                                          std::move(splits), moving.axes(), mesh_, prices_);
  }
  return *graph;
}

}  // namespace tessera
