#include "core/layout/redistribution/redistribution_prices.h"

#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/layout/redistribution/moving_axes.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Layouts on the mesh of the moving axes, and their positions in a list.
struct Layouts {
  std::vector<MeshLayout> layouts;
  std::vector<size_t> positions;
};

std::map<LayoutGraphs::Units, Layouts> ByUnits(absl::Span<const MeshLayout> layouts,
                                               const MovingAxes& moving) {
  std::map<LayoutGraphs::Units, Layouts> by_units;
  for (size_t i = 0; i < layouts.size(); ++i) {
    MeshLayout layout = moving.Select(layouts[i]);
    Layouts& alike = by_units[LayoutGraphs::UnitsOf(layout)];
    alike.layouts.push_back(std::move(layout));
    alike.positions.push_back(i);
  }
  return by_units;
}

}  // namespace

RedistributionPrices::RedistributionPrices(const Mesh& mesh, const PathPrices& prices)
    : mesh_(mesh), prices_(prices), graphs_(mesh_, prices) {}

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
      const auto path = graphs_.Find(from[i / to.size()], to[i % to.size()], type);
      prices[i] = path.has_value() ? SecondsOf(path->steps, type, mesh_, prices_.priced_by)
                                   : std::numeric_limits<double>::infinity();
    }
    return prices;
  }
  const auto all_targets = ByUnits(to, moving);
  for (const auto& [from_units, sources] : ByUnits(from, moving)) {
    for (const auto& [to_units, targets] : all_targets) {
      LayoutGraphs::Units units = from_units;
      absl::c_copy(to_units, std::back_inserter(units));
      const std::vector<double> found =
          graphs_.For(moving, units, type).FindPrices(sources.layouts, targets.layouts);
      for (size_t i = 0; i < found.size(); ++i) {
        const size_t row = sources.positions[i / targets.positions.size()];
        prices[row * to.size() + targets.positions[i % targets.positions.size()]] = found[i];
      }
    }
  }
  return prices;
}

}  // namespace tessera
