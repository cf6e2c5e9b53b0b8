#include "core/graph/autograd.h"
#include "core/ops/ops.h"

namespace tessera {

absl::StatusOr<std::vector<Tensor>> RecordGradients(Graph& graph, Tensor loss,
                                                    absl::Span<const Tensor> targets) {
  return AppendGradients(graph, loss, targets, {Add, Fill});
}

}  // namespace tessera
