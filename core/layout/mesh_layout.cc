#include "core/layout/mesh_layout.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tessera {

MeshLayout::MeshLayout(absl::Span<const AxisLayout> axes)
    : MeshLayout(static_cast<int>(axes.size())) {
  for (int i = 0; i < num_axes(); ++i) *this = With(i, axes[i]);
}

void MeshLayout::Remove(int axis) {
  for (int i = 0; i < num_axes() && axes_[axis].split(); ++i) {
    const bool same_dim = axes_[i].split() && axes_[i].dim == axes_[axis].dim;
    if (same_dim && depths_[i] > depths_[axis]) --depths_[i];
  }
  axes_[axis] = AxisLayout::Broadcast();
  depths_[axis] = 0;
}

MeshLayout MeshLayout::With(int axis, AxisLayout layout) const {
  MeshLayout result = *this;
  result.Remove(axis);
  if (layout.split()) {
    result.depths_[axis] = static_cast<int>(result.AxesSplitting(layout.dim).size());
  }
  result.axes_[axis] = layout;
  return result;
}

MeshLayout MeshLayout::WithUnit(int axis, int64_t unit) const {
  MeshLayout result = *this;
  result.axes_[axis].unit = unit;
  return result;
}

absl::InlinedVector<int, 4> MeshLayout::AxesSplitting(int dim) const {
  absl::InlinedVector<int, 4> splits;
  for (int i = 0; i < num_axes(); ++i) {
    if (axes_[i].split() && axes_[i].dim == dim) splits.push_back(i);
  }
  std::sort(splits.begin(), splits.end(), [&](int a, int b) { return depths_[a] < depths_[b]; });
  return splits;
}

bool MeshLayout::IsInnermost(int axis) const {
  for (int i = 0; i < num_axes(); ++i) {
    const bool same_dim = axes_[i].split() && axes_[i].dim == axes_[axis].dim;
    if (same_dim && depths_[i] > depths_[axis]) return false;
  }
  return true;
}

bool MeshLayout::partial() const {
  return std::any_of(axes_.begin(), axes_.end(),
                     [](const AxisLayout& layout) { return layout.partial(); });
}

absl::InlinedVector<int, 4> MeshLayout::NestingOrder() const {
  absl::InlinedVector<int, 4> order;
  // By axis: the number of splits outside of its split that are not in `order` yet.
  std::vector<int> outer_splits(depths_.begin(), depths_.end());
  for (int axis = 0; axis < num_axes();) {
    if (axes_[axis].broadcast() || outer_splits[axis] != 0) {
      ++axis;
      continue;
    }
    order.push_back(axis);
    outer_splits[axis] = -1;
    for (int i = 0; i < num_axes() && axes_[axis].split(); ++i) {
      if (axes_[i].split() && axes_[i].dim == axes_[axis].dim) --outer_splits[i];
    }
    axis = 0;  // an earlier axis may have been skipped because of its outer split
  }
  return order;
}

std::string MeshLayout::ToString(const Mesh& mesh) const {
  const absl::InlinedVector<int, 4> order = NestingOrder();
  if (order.empty()) return "B";
  return absl::StrJoin(order, ", ", [&](std::string* out, int axis) {
    absl::StrAppend(out, mesh.axis(axis).name, ": ", axes_[axis].ToString());
  });
}

int64_t PartExtent(int64_t extent, int64_t unit, int size) {
  if (extent == 0) return 0;
  const int64_t units = (extent - 1) / unit + 1;
  return std::min(extent, ((units - 1) / size + 1) * unit);
}

absl::Status CheckLayout(const MeshLayout& layout, absl::Span<const int64_t> global,
                         const Mesh& mesh) {
  if (layout.num_axes() != mesh.num_axes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a layout over ", layout.num_axes(), " axes on a mesh of ", mesh.num_axes()));
  }
  const AxisLayout* partial = nullptr;
  for (int i = 0; i < mesh.num_axes(); ++i) {
    const AxisLayout& axis = layout.axis(i);
    const auto error = [&](absl::string_view fault) {
      return absl::InvalidArgumentError(
          absl::StrCat("layout '", layout.ToString(mesh), "' does not fit ", ShapeToString(global),
                       ": ", axis.ToString(), " along axis '", mesh.axis(i).name, "' ", fault));
    };
    if (axis.split() && (axis.dim < 0 || axis.dim >= static_cast<int>(global.size()))) {
      return error(absl::StrCat("splits a dimension that is not in 0..",
                                static_cast<int>(global.size()) - 1));
    }
    if (axis.split() && axis.unit < 1) return error("has a unit below 1");
    if (!axis.partial()) continue;
    if (partial != nullptr && *partial != axis) {
      return error(absl::StrCat("cannot be combined with ", partial->ToString()));
    }
    partial = &axis;
  }
  return absl::OkStatus();
}

Shape LocalShape(const MeshLayout& layout, absl::Span<const int64_t> global, const Mesh& mesh) {
  Shape local(global.begin(), global.end());
  for (size_t d = 0; d < local.size(); ++d) {
    for (int axis : layout.AxesSplitting(static_cast<int>(d))) {
      local[d] = PartExtent(local[d], layout.axis(axis).unit, mesh.axis(axis).size);
    }
  }
  return local;
}

Box BoxOf(const MeshLayout& layout, absl::Span<const int64_t> global, const Mesh& mesh,
          absl::Span<const int> coordinates) {
  Box box{Shape(global.size(), 0), Shape(global.begin(), global.end())};
  for (size_t d = 0; d < global.size(); ++d) {
    int64_t padded = global[d];
    for (int axis : layout.AxesSplitting(static_cast<int>(d))) {
      padded = PartExtent(padded, layout.axis(axis).unit, mesh.axis(axis).size);
      const int64_t skipped = std::min(coordinates[axis] * padded, box.extent[d]);
      box.start[d] += skipped;
      box.extent[d] = std::min(padded, box.extent[d] - skipped);
    }
  }
  return box;
}

bool HoldSameElements(const MeshLayout& a, const MeshLayout& b, absl::Span<const int64_t> global,
                      const Mesh& mesh) {
  if (a == b) return true;
  for (int i = 0; i < mesh.num_axes(); ++i) {
    if (mesh.axis(i).size == 1 || (!a.axis(i).partial() && !b.axis(i).partial())) continue;
    if (a.axis(i) != b.axis(i)) return false;
  }
  if (LocalShape(a, global, mesh) != LocalShape(b, global, mesh)) return false;
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const MeshCoordinates coordinates = mesh.CoordinatesOf(rank);
    if (!(BoxOf(a, global, mesh, coordinates) == BoxOf(b, global, mesh, coordinates))) return false;
  }
  return true;
}

}  // namespace tessera
