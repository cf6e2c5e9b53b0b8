#include "core/program/rank_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tessera {

Box PartRule::At(const Mesh& mesh, absl::Span<const int> coordinates) const {
  Box box = BoxOf(layout, extent, mesh, coordinates);
  for (size_t d = 0; d < start.size(); ++d) box.start[d] += start[d];
  return box;
}

Shape PartRule::LocalShape(const Mesh& mesh) const {
  return tessera::LocalShape(layout, extent, mesh);
}

absl::Status CheckPart(const PartRule& part, const Mesh& mesh) {
  const size_t rank = part.global.size();
  bool inside = part.start.size() == rank && part.extent.size() == rank;
  for (size_t d = 0; inside && d < rank; ++d) {
    inside = part.start[d] >= 0 && part.extent[d] >= 0 &&
             part.extent[d] <= part.global[d] - part.start[d];
    // A part without elements may be said to start anywhere.
    inside = inside || part.extent[d] == 0;
  }
  if (!inside) {
    return absl::InvalidArgumentError(
        absl::StrCat("a part ", ShapeToString(part.extent), " at ", ShapeToString(part.start),
                     " does not lie within ", ShapeToString(part.global)));
  }
  return CheckLayout(part.layout, part.extent, mesh);
}

RandomDraw DrawRule::At(const Mesh& mesh, absl::Span<const int> coordinates) const {
  return {path, part.At(mesh, coordinates).start, part.global};
}

std::string DrawRule::ToString(const Mesh& mesh) const {
  std::string text = path;
  if (part.extent != part.global) {
    absl::StrAppend(&text, " at ", ShapeToString(part.start), " of ", ShapeToString(part.global));
  }
  const auto layouts = part.layout.axes();
  const bool everywhere = std::all_of(layouts.begin(), layouts.end(),
                                      [](const AxisLayout& axis) { return axis.broadcast(); });
  if (!everywhere) absl::StrAppend(&text, ", ", part.layout.ToString(mesh));
  return text;
}

}  // namespace tessera
