// The buffer of a collective that has a part for each rank of its group: where each part of a
// tensor lies in it.
#ifndef TESSERA_CORE_PROGRAM_LOWER_PACKED_PARTS_H_
#define TESSERA_CORE_PROGRAM_LOWER_PACKED_PARTS_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "core/graph/operator.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/tensor/shape.h"

namespace tessera {

// A tensor that is split over several axes of a mesh, and the buffer of its parts: one part for
// each rank of a group along these axes, in the mesh's order, all padded to the same shape and
// row-major. The splits may be of one dimension or of several, nested in any order, and uneven. So
// neighbouring elements of the tensor may be in parts that are far from each other.
//
// Thread safety: immutable after construction.
class PackedParts {
 public:
  // Elements that have positions in the tensor and in the buffer.
  struct Copy {
    Shape shape;
    ViewPlacement in_tensor, in_buffer;
  };
  // Elements of the buffer that are padding.
  struct Padding {
    Shape shape;
    ViewPlacement in_buffer;
  };

  // `tensor` is a row-major local shape before it is split along `axes`, which are in the mesh's
  // order. `layout` splits it along each of them, and along no other axis within these splits.
  PackedParts(const Shape& tensor, const MeshLayout& layout, absl::Span<const int> axes,
              const Mesh& mesh);

  // Returns the number of elements of the buffer: that of a part times that of the ranks.
  int64_t elements() const { return elements_; }
  // Returns whether the elements have the same positions in the buffer as in the tensor. All
  // padding is then at the end of the buffer.
  bool in_order() const { return in_order_; }
  // Returns whether the buffer is the tensor: in order, and without padding.
  bool consecutive() const { return in_order_ && elements_ == tensor_elements_; }

  // Returns copies of all elements of the tensor, each of which is in one of them.
  const std::vector<Copy>& copies() const { return copies_; }
  // Returns all padding, each element of which is in one of the ranges.
  const std::vector<Padding>& padding() const { return padding_; }

 private:
  // Parts of the same size along one dimension.
  struct Piece {
    // The range of each axis that splits the dimension, outermost first.
    absl::InlinedVector<int64_t, 4> first, count;
    // The elements of a part along the dimension.
    int64_t begin = 0, extent = 0;
  };
  // An axis of the group.
  struct Axis {
    int64_t size = 1;
    int64_t part_step = 0;    // parts between neighbours along it
    int64_t tensor_step = 0;  // elements of the split dimension between neighbours along it
  };
  struct Dimension {
    int64_t tensor = 0, part = 0;        // elements in the tensor and in a part
    absl::InlinedVector<int, 4> splits;  // indices of axes, outermost first
    std::vector<Piece> written, missing;
    Piece all;  // written and missing
  };

  // Adds the pieces of a dimension of which the axes before `level` have the ranges in `piece`, and
  // `extent` elements remain.
  void AddPieces(Dimension& dimension, size_t level, int64_t extent, Piece piece) const;
  // Returns the elements that are in the given piece of each split dimension, by dimension.
  Copy Join(absl::Span<const Piece* const> pieces) const;
  void AddCopies();
  void AddPadding();

  std::vector<Axis> axes_;
  std::vector<Dimension> dimensions_;
  int64_t part_elements_ = 1, elements_ = 0, tensor_elements_ = 0;
  bool in_order_ = false;
  std::vector<Copy> copies_;
  std::vector<Padding> padding_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_LOWER_PACKED_PARTS_H_
