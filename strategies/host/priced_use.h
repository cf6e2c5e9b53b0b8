// The work for which the host prices an operator in a layout, and the prices of redistributions.
#ifndef TESSERA_STRATEGIES_HOST_PRICED_USE_H_
#define TESSERA_STRATEGIES_HOST_PRICED_USE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/cost/cluster_prices.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"

namespace tessera {

// The types of a rank's padded shards of an op's operands.
struct LocalOperands {
  std::vector<TensorType> inputs, outputs;
};

// One use of an op on a mesh: a kernel, or several, if the op is computed in parts along an axis.
struct PricedUse {
  struct Kernel {
    Op op;  // its ids mean nothing
    LocalOperands local;
  };
  // A redistribution between two parts, of a value of a global type.
  struct Completion {
    MeshLayout from, to;
    TensorType type;
  };
  std::vector<Kernel> kernels;
  std::vector<Completion> completions;

  // `signature` is text as in a Plan, "" for B. InvalidArgument, in one line, if it is malformed or
  // does not fit the op's operands. Thread safety: a pure function.
  static absl::StatusOr<PricedUse> Of(const Graph& graph, const Op& op,
                                      const std::string& signature, const Mesh& mesh);
};

// Prices the redistributions that lowering chooses on a mesh. Not thread-safe.
class RedistributionPrices {
 public:
  // `prices` must outlive the object.
  RedistributionPrices(const Mesh& mesh, const ClusterPrices* prices);

  // Returns the seconds of the collectives; infinity if no steps lead to `to`. InvalidArgument if a
  // layout does not fit the type.
  absl::StatusOr<double> Seconds(const MeshLayout& from, const MeshLayout& to,
                                 const TensorType& type);

 private:
  const Mesh mesh_;
  const ClusterPrices* const prices_;
  RedistributionFinder finder_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PRICED_USE_H_
