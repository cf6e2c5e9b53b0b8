#include "core/program/ranks/rank_extents.h"

#include <algorithm>
#include <set>

namespace tessera {
namespace {

using Extents = std::set<int64_t>;

// Returns the extents that dimension `d` of a part has on some rank. Adds the coordinates along
// each axis at which the extent changes to `changes`.
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

// Returns the numbers of elements that a part has on some rank. Adds the coordinates along each
// axis at which the number changes to `changes`.
Extents ElementsOf(const PartRule& part, const Mesh& mesh, std::vector<std::set<int>>& changes) {
  Extents elements = {1};
  for (size_t d = 0; d < part.extent.size(); ++d) {
    Extents products;
    for (const int64_t extent : ExtentsOf(part, mesh, static_cast<int>(d), changes)) {
      for (const int64_t before : elements) products.insert(before * extent);
    }
    elements = std::move(products);
  }
  return elements;
}

// Adds the coordinates of the rank that holds a part of a flat group to `changes`.
void AddCoordinates(int part, absl::Span<const int> axes, const Mesh& mesh,
                    std::vector<std::set<int>>& changes) {
  for (size_t i = axes.size(); i-- > 0;) {
    changes[axes[i]].insert(part % mesh.axis(axes[i]).size);
    part /= mesh.axis(axes[i]).size;
  }
}

// Adds to `changes` the coordinates at which the number of elements of a member of a flat group
// changes. Ranks may hold less than the room of the member, depending on the other axes.
void AddFlatChanges(const Program& program, const ProgramValue& value,
                    std::vector<std::set<int>>& changes) {
  const FlatRule& flat = program.flats[value.flat];
  const FlatGroup::Range room = flat.group->InGathered(flat.member);
  Extents sizes = {room.size()};  // of the member, after the splits over the other axes
  if (value.part != kNone) sizes = ElementsOf(program.parts[value.part], program.mesh, changes);
  for (const int64_t elements : sizes) {
    if (elements == 0) continue;
    const int first = static_cast<int>(room.begin / flat.group->part());
    const int last = static_cast<int>((room.begin + elements - 1) / flat.group->part());
    for (const int part : {first, std::min(first + 1, last), last, last + 1}) {
      if (part < flat.group->ranks()) AddCoordinates(part, flat.axes, program.mesh, changes);
    }
  }
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
                                              absl::Span<const ProgramValueId> values) {
  const Mesh& mesh = program.mesh;
  std::vector<std::set<int>> changes(mesh.num_axes());
  for (const ProgramValueId id : values) {
    const ProgramValue& value = program.values[id];
    if (value.flat != kNone) {
      AddFlatChanges(program, value, changes);
    } else if (value.part != kNone) {
      ElementsOf(program.parts[value.part], mesh, changes);
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
