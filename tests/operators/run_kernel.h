// Runs one kernel, or one operator, by itself: with no Graph, no Program and no plan of memory.
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

// The types as the backend keeps them.
std::vector<TensorType> Realized(const Backend& backend, absl::Span<const TensorType> types);

// The request for one use of an operator on a backend; `types` are the Graph's.
KernelRequest RequestFor(const Backend& backend, const Operator& op, const Attributes& attributes,
                         absl::Span<const TensorType> inputs, absl::Span<const TensorType> outputs);

// How much care is taken to see what a kernel should not touch.
enum class Guard {
  kEach,  // behind each array lies a page that cannot be touched
  kNone,  // arrays lie in one piece of memory: faster
};

// Which parts of global tensors the operands of a call are; empty if they are all of them.
struct CallRegions {
  std::vector<Region> inputs, outputs;

  bool empty() const { return inputs.empty() && outputs.empty(); }
};

// Runs `kernel` on device memory, with a poisoned workspace, and leaves in `outputs` what it wrote.
// Pairs (input, output) of `in_place` share memory, and have the same strides. Internal if anything
// was written that is neither an output nor the workspace.
absl::Status RunKernel(Backend& backend, const Kernel& kernel, const KernelRequest& request,
                       absl::Span<const Array> inputs, absl::Span<Array> outputs,
                       absl::Span<const std::pair<int, int>> in_place = {},
                       Guard guard = Guard::kEach, const CallRegions& regions = {});

// Internal if the kernel leaves the last byte of its workspace unwritten: the memory plan counts on
// all that a kernel asks for, and --check_memory looks at the end of the plan. Kernels whose
// workspace is a library's are not checked.
absl::Status CheckWorkspaceIsWritten(Backend& backend, const Kernel& kernel,
                                     const KernelRequest& request, absl::Span<const Array> inputs,
                                     const CallRegions& regions = {});

// The outputs of one use of an operator by the backend's default kernel; of a view or an assembly
// as the operator says that they lie. Inputs have the types as realized; so do the outputs, whose
// types in the Graph are `outputs`.
absl::StatusOr<std::vector<Array>> RunOperator(Backend& backend, const Operator& op,
                                               const Attributes& attributes,
                                               absl::Span<const Array> inputs,
                                               absl::Span<const TensorType> outputs,
                                               const CallRegions& regions = {});

}  // namespace tessera::operator_tests

#endif  // TESSERA_TESTS_OPERATORS_RUN_KERNEL_H_
