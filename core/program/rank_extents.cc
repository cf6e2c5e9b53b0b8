#include "core/program/rank_extents.h"

#include <algorithm>
#include <set>

namespace tessera {
namespace {

using Extents = std::set<int64_t>;

// The extents that dimension `d` of a part has on some rank. Adds the coordinates along each axis
// at which they change to `changes`.
Extents ExtentsOf(const PartRule& part, const Mesh& mesh, int d,
                  std::vector<std::set<int>>& changes) {
  Extents extents = {part.extent[d]};
  int64_t padded = part.extent[d];
  for (const int axis : part.layout.AxesSplitting(d)) {
    padded = PartExtent(padded, part.layout.axis(axis).unit, mesh.axis(axis).size);
    Extents inner;
    for (const int64_t extent : extents) {
      // Full parts, a shorter one, and empty ones.
      const int64_t full = padded == 0 ? 0 : extent / padded;
      for (const int64_t coordinate : {int64_t{0}, full, full + 1}) {
        if (coordinate >= mesh.axis(axis).size) continue;
        changes[axis].insert(static_cast<int>(coordinate));
        inner.insert(std::clamp<int64_t>(extent - coordinate * padded, 0, padded));
      }
    }
    extents = std::move(inner);
  }
  return extents;
}

}  // namespace

bool PartRule::Ragged(const Mesh& mesh) const {
  std::vector<std::set<int>> changes(mesh.num_axes());
  const Shape padded = LocalShape(mesh);
  bool leading = true;
  for (size_t d = 0; d < padded.size(); ++d) {
    for (const int64_t extent : ExtentsOf(*this, mesh, static_cast<int>(d), changes)) {
      if (!leading && extent != 0 && extent != padded[d]) return true;
    }
    leading = leading && padded[d] <= 1;
  }
  return false;
}

std::vector<MeshCoordinates> RanksOfAllShapes(const Program& program,
                                              absl::Span<const int32_t> values) {
  const Mesh& mesh = program.mesh;
  std::vector<std::set<int>> changes(mesh.num_axes());
  for (const int32_t id : values) {
    const ProgramValue& value = program.values[id];
    if (value.flat != kNone) {
      const FlatRule& flat = program.flats[value.flat];
      const FlatGroup::Range range = flat.group->InGathered(flat.member);
      if (range.size() == 0) continue;
      const int first = static_cast<int>(range.begin / flat.group->part());
      const int last = static_cast<int>((range.end - 1) / flat.group->part());
      changes[flat.axis].insert({first, std::min(first + 1, last), last});
    } else if (value.part != kNone) {
      const PartRule& part = program.parts[value.part];
      for (size_t d = 0; d < part.extent.size(); ++d) {
        ExtentsOf(part, mesh, static_cast<int>(d), changes);
      }
    }
  }
  std::vector<MeshCoordinates> ranks = {MeshCoordinates()};
  for (const std::set<int>& coordinates : changes) {
    std::vector<MeshCoordinates> longer;
    for (const MeshCoordinates& rank : ranks) {
      longer.push_back(rank);
      longer.back().push_back(0);
      for (const int coordinate : coordinates) {
        if (coordinate == 0) continue;
        longer.push_back(rank);
        longer.back().push_back(coordinate);
      }
    }
    ranks = std::move(longer);
  }
  return ranks;
}

}  // namespace tessera
