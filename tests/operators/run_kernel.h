// Runs a single kernel or operator, without a Graph, a Program or a memory plan.
#ifndef TESSERA_TESTS_OPERATORS_RUN_KERNEL_H_
#define TESSERA_TESTS_OPERATORS_RUN_KERNEL_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/operator.h"
#include "core/kernels/interface/backend.h"
#include "core/layout/layout.h"
#include "tests/operators/array.h"

namespace tessera::operator_tests {

// Returns the types that the backend uses for `types`.
std::vector<TensorType> Realized(const Backend& backend, absl::Span<const TensorType> types);

// Returns the request for one use of an operator on a backend; `types` are the Graph's.
KernelRequest RequestFor(const Backend& backend, const Operator& op, const Attributes& attributes,
                         absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs);

// How accesses outside of a kernel's arrays are detected.
enum class Guard {
  kEach,  // an inaccessible page follows each array
  kNone,  // arrays share one allocation: faster
};

// The regions of global tensors that the operands of a call hold; empty for complete tensors.
struct CallRegions {
  std::vector<Region> inputs, outputs;

  bool empty() const { return inputs.empty() && outputs.empty(); }
};

// Runs `kernel` on device memory, with a poisoned workspace, and copies its results to `outputs`.
// Pairs (input, output) of `in_place` share memory, and have the same strides. Internal if the
// kernel wrote anything other than outputs and the workspace.
absl::Status RunKernel(Backend& backend, const Kernel& kernel, const KernelRequest& request,
                       absl::Span<const Array> inputs, absl::Span<Array> outputs,
                       absl::Span<const std::pair<int, int>> in_place = {},
                       Guard guard = Guard::kEach, const CallRegions& regions = {});

// Internal if the kernel does not write the last byte of its workspace: the memory plan includes
// all requested bytes, and --check_memory checks the end of the plan. Kernels whose workspace is a
// library's are not checked.
absl::Status CheckWorkspaceIsWritten(Backend& backend, const Kernel& kernel,
                                     const KernelRequest& request, absl::Span<const Array> inputs,
                                     const CallRegions& regions = {});

// Returns the outputs of one use of an operator, computed by the backend's default kernel, or taken
// at the operator's own offsets and strides for a view or an assembly. Inputs and outputs have
// realized types; the outputs' types in the Graph are `outputs`.
absl::StatusOr<std::vector<Array>> RunOperator(Backend& backend, const Operator& op,
                                               const Attributes& attributes,
                                               absl::Span<const Array> inputs,
                                               absl::Span<const TensorType> outputs,
                                               const CallRegions& regions = {});

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_RUN_KERNEL_H_
