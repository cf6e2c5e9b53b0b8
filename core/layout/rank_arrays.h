// For tests: the local buffers of all ranks of a mesh, and redistribution steps run on them
// literally.
#ifndef TESSERA_CORE_LAYOUT_RANK_ARRAYS_H_
#define TESSERA_CORE_LAYOUT_RANK_ARRAYS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution.h"
#include "core/tensor/shape.h"

namespace tessera {

// All layouts whose axes are B or one of `along`, in all orders of nesting.
std::vector<MeshLayout> AllLayouts(const Mesh& mesh, absl::Span<const AxisLayout> along);

// Returns the element of which ranks hold these partial values.
double Combine(AxisLayout::Reduction reduction, absl::Span<const double> shares);

// A local buffer, row-major in its padded local shape. Padding is NaN.
struct LocalArray {
  Shape shape;
  std::vector<double> values;
};

// A value in a layout, with the buffer of each rank.
struct RankArrays {
  MeshLayout layout;
  std::vector<LocalArray> ranks;
};

// The global tensor, row-major, in a layout. Partial values are drawn so that they combine to it.
RankArrays Distribute(absl::Span<const double> values, const Shape& shape, const MeshLayout& layout,
                      const Mesh& mesh);

// Runs one step on all ranks: nothing but what its collectives send reaches another rank.
RankArrays RunStep(const RedistributionStep& step, const RankArrays& arrays, const Shape& shape,
                   const Mesh& mesh);

// "" if the ranks hold the global tensor in their layout, or what differs on which rank.
std::string Difference(const RankArrays& arrays, absl::Span<const double> values,
                       const Shape& shape, const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_RANK_ARRAYS_H_
