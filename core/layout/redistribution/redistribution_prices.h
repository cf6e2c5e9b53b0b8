// The prices of the redistributions that lowering chooses.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_PRICES_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_PRICES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/layout_graphs.h"
#include "core/tensor/shape.h"

namespace tessera {

// Prices what a RedistributionFinder with the prices `chosen_by` finds, by others: those of a
// cluster. On meshes of up to four axes of more than one rank, a few searches price the
// redistributions from one layout to all others.
//
// Not thread-safe.
class RedistributionPrices {
 public:
  // The prices must outlive the object.
  RedistributionPrices(const Mesh& mesh, const PathPrices& prices);
  RedistributionPrices(const RedistributionPrices&) = delete;
  RedistributionPrices& operator=(const RedistributionPrices&) = delete;

  // Returns the seconds from each layout to each of several: those from the first one, then those
  // from the second one, and so on. Infinity if no steps lead there. InvalidArgument if a layout
  // does not fit the type.
  absl::StatusOr<std::vector<double>> Find(absl::Span<const MeshLayout> from,
                                           absl::Span<const MeshLayout> to, const TensorType& type);

 private:
  const Mesh mesh_;
  const PathPrices prices_;
  LayoutGraphs graphs_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_PRICES_H_
