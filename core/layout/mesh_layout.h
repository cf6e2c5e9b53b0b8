// The layout of a tensor on a device mesh: its layout along each axis, and how splits nest.
#ifndef TESSERA_CORE_LAYOUT_MESH_LAYOUT_H_
#define TESSERA_CORE_LAYOUT_MESH_LAYOUT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/layout/layout.h"
#include "core/layout/mesh.h"
#include "core/tensor/shape.h"

namespace tessera {

// The largest dimension and unit of a split that comes from a text or a message.
inline constexpr int kMaxSplitDim = 63;
inline constexpr int64_t kMaxSplitUnit = int64_t{1} << 40;

// Each axis of the mesh splits the tensor, broadcasts it, or holds partial values of it. Splits are
// applied one after the other, each to the padded part that the splits before it left. If several
// axes split one dimension, their order matters: of 4 rows on a 2 x 2 mesh, rank 1 holds row 1 if
// the first axis is the outer split, and row 2 if the second one is.
//
// A split S(d, u) over k ranks of a dimension of n elements has ceil(n / u) units. Each rank but
// the last ones holds ceil(ceil(n / u) / k) units; the last ranks may hold fewer, or none. Local
// buffers have the size of the first rank's part, so all ranks have the same padded local shape.
//
// A value type; two objects are == if they have the same layouts and nesting. HoldSameElements
// compares what ranks hold.
class MeshLayout {
 public:
  // Broadcast over all axes of a mesh.
  explicit MeshLayout(int num_axes = 0) : axes_(num_axes), depths_(num_axes, 0) {}
  // If several axes split one dimension, earlier axes are the outer splits.
  explicit MeshLayout(absl::Span<const AxisLayout> axes);

  int num_axes() const { return static_cast<int>(axes_.size()); }
  const AxisLayout& axis(int i) const { return axes_[i]; }
  absl::Span<const AxisLayout> axes() const { return axes_; }

  // This layout with another one along `axis`. A split becomes the innermost one of its dimension.
  MeshLayout With(int axis, AxisLayout layout) const;
  // This layout with another one along `axis`, a split, whose position in the nesting stays.
  MeshLayout WithUnit(int axis, int64_t unit) const;

  // The axes that split dimension `dim`, outermost first.
  absl::InlinedVector<int, 4> AxesSplitting(int dim) const;
  // Whether no other split of its dimension lies within that of `axis`, which is a split.
  bool Innermost(int axis) const;
  // Whether any axis holds partial values.
  bool partial() const;
  // The axes that are not B in an order from which With, called for each, makes this layout: outer
  // splits of a dimension before inner ones, otherwise in the mesh's order.
  absl::InlinedVector<int, 4> NestingOrder() const;

  // "data: S(0), model: P(max)": the axes in nesting order; "B" if all are B.
  std::string ToString(const Mesh& mesh) const;

  friend bool operator==(const MeshLayout& a, const MeshLayout& b) {
    return a.axes_ == b.axes_ && a.depths_ == b.depths_;
  }
  friend bool operator!=(const MeshLayout& a, const MeshLayout& b) { return !(a == b); }

  template <typename H>
  friend H AbslHashValue(H h, const MeshLayout& layout) {
    for (int i = 0; i < layout.num_axes(); ++i) {
      const AxisLayout& axis = layout.axes_[i];
      h = H::combine(std::move(h), axis.kind, axis.dim, axis.unit, axis.reduction,
                     layout.depths_[i]);
    }
    return H::combine(std::move(h), layout.num_axes());
  }

 private:
  // Sets `axis` to B, and moves the splits within it outwards.
  void Remove(int axis);

  absl::InlinedVector<AxisLayout, 4> axes_;
  absl::InlinedVector<int, 4> depths_;  // of splits: how many splits of the dimension are outside
};

// A box of a global tensor: elements [start, start + extent) along each dimension.
struct Box {
  Shape start;
  Shape extent;

  bool empty() const { return NumElements(extent) == 0; }
  // Boxes without elements are equal.
  friend bool operator==(const Box& a, const Box& b) {
    return (a.empty() && b.empty()) || (a.start == b.start && a.extent == b.extent);
  }
};

// Elements of the largest part of a dimension of `extent` elements that is split in units of `unit`
// over `size` ranks. Never above `extent`.
int64_t PartExtent(int64_t extent, int64_t unit, int size);

// InvalidArgument if the layout is not for a tensor of this shape on this mesh: it has another
// number of axes, splits a dimension that the tensor lacks, has a unit below 1, or two kinds of
// partial values (the order of a sum over one axis and a maximum over another would matter).
absl::Status CheckLayout(const MeshLayout& layout, absl::Span<const int64_t> global,
                         const Mesh& mesh);

// The functions below need a layout that CheckLayout accepts.

// The padded local shape, which is the same on every rank.
Shape LocalShape(const MeshLayout& layout, absl::Span<const int64_t> global, const Mesh& mesh);

// The elements of the global tensor that the rank at `coordinates` holds: all of them, its split
// part, or (partial) its share of each. Element (0, 0, ...) of its local buffer is the one at
// `start`; what lies past `extent` in the buffer is padding, which is never read.
Box BoxOf(const MeshLayout& layout, absl::Span<const int64_t> global, const Mesh& mesh,
          absl::Span<const int> coordinates);

// Whether each rank holds the same elements, in the same padded local shape, in both layouts, and
// the same axes of more than one rank hold partial values. S(0, 4) and S(0) of 8 rows over 2 ranks
// do.
bool HoldSameElements(const MeshLayout& a, const MeshLayout& b, absl::Span<const int64_t> global,
                      const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_MESH_LAYOUT_H_
