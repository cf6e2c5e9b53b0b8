// The work for which the host prices an operator in a layout.
#ifndef TESSERA_STRATEGIES_HOST_PRICED_USE_H_
#define TESSERA_STRATEGIES_HOST_PRICED_USE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/tensor/shape.h"

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

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_PRICED_USE_H_
