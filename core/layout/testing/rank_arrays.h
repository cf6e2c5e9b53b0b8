// For tests: holds the local buffers of all ranks of a mesh, and executes redistribution steps on
// them as their definitions say; meshes and prices to find steps with.
#ifndef TESSERA_CORE_LAYOUT_TESTING_RANK_ARRAYS_H_
#define TESSERA_CORE_LAYOUT_TESTING_RANK_ARRAYS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/traffic/collective_call.h"
#include "core/tensor/shape.h"

namespace tessera {

// Returns the mesh of axes "a0", "a1", ... of these sizes.
Mesh MeshOfSizes(const std::vector<int>& sizes);

// Prices each call the same, so that as many axes as possible are along one.
class CallPrices final : public CollectivePrices {
 public:
  double Seconds(const CollectiveCall& /*call*/, const Mesh& /*mesh*/) const override { return 1; }
};

// Returns all layouts in which each axis is B or one of `along`, in all nesting orders.
std::vector<MeshLayout> AllLayouts(const Mesh& mesh, absl::Span<const AxisLayout> along);

// Reduces the partial values of one element to its true value.
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

// Distributes the row-major global tensor. Partial values are drawn at random so that they reduce
// to it.
RankArrays Distribute(absl::Span<const double> values, const Shape& shape, const MeshLayout& layout,
                      const Mesh& mesh);

// Runs one step on all ranks. Ranks exchange data only through the step's collectives.
RankArrays RunStep(const RedistributionStep& step, const RankArrays& arrays, const Shape& shape,
                   const Mesh& mesh);

// Returns "" if the ranks hold the global tensor in their layout, otherwise a text that says which
// rank differs, and how.
std::string Difference(const RankArrays& arrays, absl::Span<const double> values,
                       const Shape& shape, const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TESTING_RANK_ARRAYS_H_
