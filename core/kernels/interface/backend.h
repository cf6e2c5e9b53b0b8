// A backend has two halves: the kernel catalogue and the device. Planning needs only the catalogue,
// so it works on machines without the device.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_
#define TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/interface/device.h"
#include "core/kernels/interface/kernel.h"
#include "core/tensor/dtype.h"

namespace tessera {

// The kernels of a backend for one processor. Thread safety: const methods may run concurrently.
class KernelCatalogue {
 public:
  virtual ~KernelCatalogue() = default;

  // "cpu", "reference"
  virtual absl::string_view name() const = 0;
  // Every kernel. The default for a request is the first kernel that accepts it.
  virtual absl::Span<const Kernel* const> kernels() const = 0;
  virtual Processor processor() const = 0;
  // Return what the times of kernels depend on besides processor(), as text: the processor's exact
  // model and caches, and the versions of this program and of libraries. Times that were measured
  // elsewhere are used only if both are equal.
  virtual std::string Hardware() const { return processor().name; }
  virtual std::string Libraries() const { return ""; }

  // The dtype in which the backend stores values whose dtype in the Graph is `dtype` (the reference
  // stores floats in f64).
  virtual DType Realize(DType dtype) const { return dtype; }
};

class Backend : public KernelCatalogue, public Device {};

// Every buffer starts at a multiple of this many bytes.
inline constexpr int64_t kBufferAlignment = 64;

// Returns the kernels for `request.op` that accept the request, the default one first.
std::vector<const Kernel*> CandidateKernels(const KernelCatalogue& catalogue,
                                            const KernelRequest& request);

// Returns the default kernel, or NotFound, with the operator, the types and the backend.
absl::StatusOr<const Kernel*> DefaultKernel(const KernelCatalogue& catalogue,
                                            const KernelRequest& request);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_
