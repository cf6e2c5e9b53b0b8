#include "core/train/state_part.h"

#include <algorithm>

namespace tessera {
namespace {

// Whether no rank with lower coordinates holds the same elements: those of axes that split nothing
// are 0. `flat_axis` splits the group that the state belongs to; -1: none does.
bool Lowest(const MeshLayout& layout, int flat_axis, absl::Span<const int> coordinates) {
  for (int axis = 0; axis < layout.num_axes(); ++axis) {
    const bool splits = layout.axis(axis).split() || axis == flat_axis;
    if (!splits && coordinates[axis] > 0) return false;
  }
  return true;
}

// The number of elements of a box, at the start of a padded one, that lie before element `padded`
// of that.
int64_t ElementsBefore(const Shape& extent, const Shape& padded_extent, int64_t padded) {
  int64_t elements = 0, of_box = NumElements(extent), of_padded = NumElements(padded_extent);
  if (padded >= of_padded) return of_box;
  for (size_t d = 0; d < extent.size(); ++d) {
    if (of_box == 0) return elements;
    of_box /= extent[d];
    of_padded /= padded_extent[d];
    const int64_t index = padded / of_padded;
    padded %= of_padded;
    elements += std::min(index, extent[d]) * of_box;
    // The rest of this row is padding.
    if (index >= extent[d]) return elements;
  }
  return elements;
}

}  // namespace

StatePart FullPart(const Shape& shape) { return {shape, FullShard(shape), FullShard(shape), true}; }

StatePart PartOnRank(const PartRule& part, const FlatRule* flat, const Mesh& mesh,
                     absl::Span<const int> coordinates) {
  StatePart result;
  result.global = part.global;
  const Box box = part.At(mesh, coordinates);
  const Shape padded = part.LocalShape(mesh);
  result.shard = StateShard(box);
  result.buffer = StateShard(Box{box.start, padded});
  result.saves = Lowest(part.layout, flat == nullptr ? -1 : flat->axis, coordinates);
  if (flat == nullptr) return result;
  const FlatGroup::Range held = flat->HeldAt(coordinates);
  result.shard.begin = ElementsBefore(box.extent, padded, held.begin);
  result.shard.end = ElementsBefore(box.extent, padded, held.end);
  result.buffer.begin = held.begin;
  result.buffer.end = held.end;
  return result;
}

absl::Status ForEachBufferRun(
    const StatePart& part, int64_t first, int64_t count,
    const std::function<absl::Status(int64_t shard_element, int64_t buffer_element,
                                     int64_t elements)>& visit) {
  return ForEachSharedRun(
      part.shard.Part(first, first + count), part.buffer,
      [&](const SharedRun& run) { return visit(first + run.first, run.second, run.count); });
}

}  // namespace tessera
