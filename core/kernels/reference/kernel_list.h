// The kernels of the reference backend: each operator in its simplest form, in double, on one
// thread. They read and write tensors with any strides.
//
// Every floating tensor is f64 here, whatever its dtype in the Graph; so a cast between floating
// dtypes is a copy, and an attribute `dtype` that names a floating one means f64.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_KERNEL_LIST_H_
#define TESSERA_CORE_KERNELS_REFERENCE_KERNEL_LIST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/interface/kernel.h"
#include "core/kernels/interface/kernel_list.h"

namespace tessera::reference {

// Returns every kernel of this backend. kernel_files.inc lists the files that define them.
absl::Span<const Kernel* const> Kernels();

// Adds the only kernel of an operator on this backend.
void AddLoops(KernelList& list, absl::string_view op, FunctionKernel::Function function,
              int64_t (*workspace_bytes)(const KernelRequest& request,
                                         const Processor& processor) = nullptr);

}  // namespace tessera::reference

#endif  // TESSERA_CORE_KERNELS_REFERENCE_KERNEL_LIST_H_
