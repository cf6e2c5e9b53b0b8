#include "core/train/state/state_part.h"

#include "absl/algorithm/container.h"

namespace tessera {
namespace {

// Returns whether no lower rank holds the same elements, which is so if the coordinates along all
// axes that split nothing are 0. `flat` is the group that the state belongs to, or null.
bool IsLowestHolder(const MeshLayout& layout, const FlatRule* flat,
                    absl::Span<const int> coordinates) {
  for (int axis = 0; axis < layout.num_axes(); ++axis) {
    const bool splits =
        layout.axis(axis).split() || (flat != nullptr && absl::c_linear_search(flat->axes, axis));
    if (!splits && coordinates[axis] > 0) return false;
  }
  return true;
}

}  // namespace

StatePart FullPart(const Shape& shape) { return {shape, FullShard(shape), FullShard(shape), true}; }

StatePart PartOnRank(const PartRule& part, const FlatRule* flat, const Mesh& mesh,
                     absl::Span<const int> coordinates) {
  StatePart result;
  result.global = part.global;
  const Box box = part.At(mesh, coordinates);
  result.shard = StateShard(box);
  result.saves = IsLowestHolder(part.layout, flat, coordinates);
  if (flat == nullptr) {
    result.buffer = StateShard(Box{box.start, part.LocalShape(mesh)});
    return result;
  }
  const FlatGroup::Range held = flat->HeldAt(mesh, coordinates, NumElements(box.extent));
  result.shard.begin = held.begin;
  result.shard.end = held.end;
  result.buffer = result.shard;
  return result;
}

}  // namespace tessera
