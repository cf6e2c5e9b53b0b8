#include "core/layout/redistribution/redistribution_prices.h"

#include <cstdint>
#include <limits>
#include <map>
#include <utility>

#include "core/layout/redistribution/moving_axes.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Layouts on the mesh of the moving axes, and their positions in a list.
struct Layouts {
  std::vector<MeshLayout> layouts;
  std::vector<size_t> positions;
};

// Returns the layouts by the dimensions and units of their splits in other units than 1.
std::map<std::vector<std::pair<int, int64_t>>, Layouts> ByUnits(
    absl::Span<const MeshLayout> layouts, const MovingAxes& moving) {
  std::map<std::vector<std::pair<int, int64_t>>, Layouts> by_units;
  for (size_t i = 0; i < layouts.size(); ++i) {
    std::vector<std::pair<int, int64_t>> units;
    MeshLayout layout = moving.Select(layouts[i]);
    for (const AxisLayout& along : layout.axes()) {
      if (along.split() && along.unit != 1) units.emplace_back(along.dim, along.unit);
    }
    Layouts& alike = by_units[units];
    alike.layouts.push_back(std::move(layout));
    alike.positions.push_back(i);
  }
  return by_units;
}

}  // namespace

RedistributionPrices::RedistributionPrices(const Mesh& mesh, const PathPrices& prices)
    : mesh_(mesh), prices_(prices), graphs_(mesh_, prices), finder_(mesh, &prices.chosen_by) {}

double RedistributionPrices::FindOne(const MeshLayout& from, const MeshLayout& to,
                                     const TensorType& type) {
  const absl::StatusOr<const Redistribution*> found = finder_.Find(from, to, type);
  if (!found.ok()) return std::numeric_limits<double>::infinity();
  return SecondsOf((*found)->steps, type, mesh_, prices_.priced_by);
}

absl::StatusOr<std::vector<double>> RedistributionPrices::Find(absl::Span<const MeshLayout> from,
                                                               absl::Span<const MeshLayout> to,
                                                               const TensorType& type) {
  for (const MeshLayout& layout : from) RETURN_IF_ERROR(CheckLayout(layout, type.shape, mesh_));
  for (const MeshLayout& layout : to) RETURN_IF_ERROR(CheckLayout(layout, type.shape, mesh_));
  std::vector<double> prices(from.size() * to.size());
  if (prices.empty()) return prices;
  const MovingAxes moving(from[0], to[0], mesh_);
  if (!moving.all_move()) {
    for (size_t i = 0; i < prices.size(); ++i) {
      prices[i] = FindOne(from[i / to.size()], to[i % to.size()], type);
    }
    return prices;
  }
  const auto all_targets = ByUnits(to, moving);
  for (const auto& [from_units, sources] : ByUnits(from, moving)) {
    for (const auto& [to_units, targets] : all_targets) {
      LayoutGraph& graph =
          graphs_.For(moving, from[sources.positions[0]], to[targets.positions[0]], type);
      const std::vector<double> found = graph.FindPrices(sources.layouts, targets.layouts);
      for (size_t i = 0; i < found.size(); ++i) {
        const size_t row = sources.positions[i / targets.positions.size()];
        prices[row * to.size() + targets.positions[i % targets.positions.size()]] = found[i];
      }
    }
  }
  return prices;
}

}  // namespace tessera
