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

// The layout of a tensor on a device mesh. Each axis of the mesh splits the tensor, broadcasts it,
// or holds partial values of it. Splits are applied one after another, each to the padded part that
// the preceding splits produce. If several axes split one dimension, their order matters: of 4 rows
// on a 2 x 2 mesh, rank 1 holds row 1 if the first axis is the outer split, and row 2 if the second
// one is.
//
// Under a split S(d, u) over k ranks, a dimension of n elements has ceil(n / u) units. Each rank
// holds ceil(ceil(n / u) / k) units, except that the last ranks may hold fewer, or none. Local
// buffers have the size of the first rank's part, so all ranks have the same padded local shape.
//
// A value type. Two objects are equal (==) if they have the same layouts and nesting;
// HoldSameElements compares which elements ranks hold.
class MeshLayout {
 public:
  // Makes the layout that is broadcast over all axes of a mesh.
  explicit MeshLayout(int num_axes = 0) : axes_(num_axes), depths_(num_axes, 0) {}
  // If several axes split one dimension, earlier axes are the outer splits.
  explicit MeshLayout(absl::Span<const AxisLayout> axes);

  int num_axes() const { return static_cast<int>(axes_.size()); }
  const AxisLayout& axis(int i) const { return axes_[i]; }
  absl::Span<const AxisLayout> axes() const { return axes_; }

  // Returns a copy with `layout` along `axis`. A split becomes the innermost one of its dimension.
  MeshLayout With(int axis, AxisLayout layout) const;
  // Returns a copy with another unit of the split along `axis`, at the same position in the
  // nesting.
  MeshLayout WithUnit(int axis, int64_t unit) const;

  // Returns the axes that split dimension `dim`, outermost first.
  absl::InlinedVector<int, 4> AxesSplitting(int dim) const;
  // Returns whether `axis`, which must be a split, is the innermost split of its dimension.
  bool IsInnermost(int axis) const;
  // Returns whether any axis holds partial values.
  bool partial() const;
  // Returns the axes that are not B, in an order in which calling With for each makes this layout:
  // outer splits of a dimension before inner ones, otherwise in the mesh's order.
  absl::InlinedVector<int, 4> NestingOrder() const;

  // Returns text like "data: S(0), model: P(max)", with the axes in nesting order; "B" if all are
  // B.
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
  // Sets `axis` to B, and moves the splits inside its split outwards.
  void Remove(int axis);

  absl::InlinedVector<AxisLayout, 4> axes_;
  absl::InlinedVector<int, 4> depths_;  // of a split: the number of splits outside it
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

// Returns the elements of the largest part if a dimension of `extent` elements is split in units of
// `unit` over `size` ranks. Never above `extent`.
int64_t PartExtent(int64_t extent, int64_t unit, int size);

// Returns InvalidArgument if the layout does not fit a tensor of this shape on this mesh: it has
// another number of axes, splits a dimension that the tensor lacks, has a unit below 1, or has two
// kinds of partial values (the order of a sum over one axis and a maximum over another would
// matter).
absl::Status CheckLayout(const MeshLayout& layout, absl::Span<const int64_t> global,
                         const Mesh& mesh);

// The functions below need a layout that CheckLayout accepts.

// Returns the padded local shape, which is the same on every rank.
Shape LocalShape(const MeshLayout& layout, absl::Span<const int64_t> global, const Mesh& mesh);

// Returns the elements of the global tensor that the rank at `coordinates` holds: all of them, its
// split part, or (partial) its share of each. Element (0, 0, ...) of its local buffer is element
// `start` of the tensor. Elements of the buffer past `extent` are padding, which is never read.
Box BoxOf(const MeshLayout& layout, absl::Span<const int64_t> global, const Mesh& mesh,
          absl::Span<const int> coordinates);

// Returns whether, in both layouts, each rank holds the same elements in the same padded local
// shape, and the same axes (of those with more than one rank) hold partial values. Example: S(0, 4)
// and S(0) of 8 rows over 2 ranks.
bool HoldSameElements(const MeshLayout& a, const MeshLayout& b, absl::Span<const int64_t> global,
                      const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_MESH_LAYOUT_H_
