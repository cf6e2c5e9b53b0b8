#include "core/program/rank_rules.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// Returns whether all axes are B.
bool IsBroadcast(const MeshLayout& layout) {
  return std::all_of(layout.axes().begin(), layout.axes().end(),
                     [](const AxisLayout& axis) { return axis.broadcast(); });
}

}  // namespace

Box PartRule::At(const Mesh& mesh, absl::Span<const int> coordinates) const {
  Box box = BoxOf(layout, extent, mesh, coordinates);
  for (size_t d = 0; d < start.size(); ++d) box.start[d] += start[d];
  return box;
}

Shape PartRule::LocalShape(const Mesh& mesh) const {
  return tessera::LocalShape(layout, extent, mesh);
}

std::string PartRule::ToString(const Mesh& mesh) const {
  if (extent == global) {
    return absl::StrCat(layout.ToString(mesh), " of ", ShapeToString(global));
  }
  std::string text = absl::StrCat(ShapeToString(extent), " at ", ShapeToString(start), " of ",
                                  ShapeToString(global));
  if (!IsBroadcast(layout)) absl::StrAppend(&text, ", ", layout.ToString(mesh));
  return text;
}

bool HoldSameElements(const PartRule& a, const PartRule& b, const Mesh& mesh) {
  return a.global == b.global && a.start == b.start && a.extent == b.extent &&
         HoldSameElements(a.layout, b.layout, a.extent, mesh);
}

bool HoldsWithin(const PartRule& outer, const PartRule& inner, const Mesh& mesh) {
  if (inner.global != outer.global) return false;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    const AxisLayout &a = inner.layout.axis(axis), &b = outer.layout.axis(axis);
    if (mesh.axis(axis).size > 1 && (a.partial() || b.partial()) && a != b) return false;
  }
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const MeshCoordinates coordinates = mesh.CoordinatesOf(rank);
    const Box box = inner.At(mesh, coordinates), around = outer.At(mesh, coordinates);
    for (size_t d = 0; d < inner.global.size() && !box.empty(); ++d) {
      if (box.start[d] < around.start[d] ||
          box.start[d] + box.extent[d] > around.start[d] + around.extent[d]) {
        return false;
      }
    }
  }
  return true;
}

absl::Status CheckPart(const PartRule& part, const Mesh& mesh) {
  const size_t rank = part.global.size();
  bool inside = part.start.size() == rank && part.extent.size() == rank;
  for (size_t d = 0; inside && d < rank; ++d) {
    inside = part.start[d] >= 0 && part.extent[d] >= 0 &&
             part.extent[d] <= part.global[d] - part.start[d];
    // A part without elements may have any start.
    inside = inside || part.extent[d] == 0;
  }
  if (!inside) {
    return absl::InvalidArgumentError(
        absl::StrCat("a part ", ShapeToString(part.extent), " at ", ShapeToString(part.start),
                     " does not lie within ", ShapeToString(part.global)));
  }
  return CheckLayout(part.layout, part.extent, mesh);
}

int64_t FlatRule::LocalElements() const {
  // Ranks between the first and the last one that hold any elements have full parts. So it is
  // enough to look at the first, the second and the last of them.
  const FlatGroup::Range range = group->InGathered(member);
  if (range.size() == 0) return 0;
  const int first = static_cast<int>(range.begin / group->part());
  const int last = static_cast<int>((range.end - 1) / group->part());
  int64_t elements = 0;
  for (const int coordinate : {first, std::min(first + 1, last), last}) {
    elements = std::max(elements, group->Held(member, coordinate).size());
  }
  return elements;
}

int FlatRule::PartAt(const Mesh& mesh, absl::Span<const int> coordinates) const {
  int part = 0;
  for (const int axis : axes) part = part * mesh.axis(axis).size + coordinates[axis];
  return part;
}

absl::Status CheckFlat(const FlatRule& flat, const Mesh& mesh) {
  int64_t ranks = 1;
  for (size_t i = 0; i < flat.axes.size(); ++i) {
    const int axis = flat.axes[i];
    const auto earlier = absl::MakeConstSpan(flat.axes).subspan(0, i);
    if (axis < 0 || axis >= mesh.num_axes() || absl::c_linear_search(earlier, axis)) {
      return absl::InvalidArgumentError(absl::StrCat("a flat group over axis ", axis,
                                                     " of a mesh of ", mesh.num_axes(), " axes"));
    }
    ranks *= mesh.axis(axis).size;
  }
  if (flat.axes.empty() || flat.group->ranks() != ranks) {
    return absl::InvalidArgumentError(absl::StrCat("a flat group of ", flat.group->ranks(),
                                                   " parts over axes of ", ranks, " ranks"));
  }
  if (flat.member < 0 || flat.member >= flat.group->num_members()) {
    return absl::InvalidArgumentError(
        absl::StrCat("member ", flat.member, " of a flat group of ", flat.group->num_members()));
  }
  return absl::OkStatus();
}

RandomDraw DrawRule::At(const Mesh& mesh, absl::Span<const int> coordinates) const {
  return {path, part.At(mesh, coordinates).start, part.global};
}

std::string DrawRule::ToString(const Mesh& mesh) const {
  std::string text = path;
  if (part.extent != part.global) {
    absl::StrAppend(&text, " at ", ShapeToString(part.start), " of ", ShapeToString(part.global));
  }
  if (!IsBroadcast(part.layout)) absl::StrAppend(&text, ", ", part.layout.ToString(mesh));
  return text;
}

}  // namespace tessera
