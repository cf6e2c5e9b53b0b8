// A backend has two halves: the kernel catalogue, which is all that planning needs, so that it
// works where the device is absent, and the device.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_
#define TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/interface/device.h"
#include "core/kernels/interface/kernel.h"
#include "core/tensor/dtype.h"

namespace tessera {

// Which kernels there are, for a processor. Thread safety: const methods may run concurrently.
class KernelCatalogue {
 public:
  virtual ~KernelCatalogue() = default;

  // "cpu", "reference"
  virtual absl::string_view name() const = 0;
  // Every kernel; of those that accept a request, the first is the default.
  virtual absl::Span<const Kernel* const> kernels() const = 0;
  virtual Processor processor() const = 0;

  // The dtype in which values of the Graph's dtype are kept (the reference keeps floats in f64).
  virtual DType Realize(DType dtype) const { return dtype; }
};

class Backend : public KernelCatalogue, public Device {};

// Every buffer starts at a multiple of this many bytes.
inline constexpr int64_t kBufferAlignment = 64;

// The kernels for `request.op` that accept the request, defaults first.
std::vector<const Kernel*> CandidateKernels(const KernelCatalogue& catalogue,
                                            const KernelRequest& request);

// The default kernel; NotFound names the operator, the types and the backend.
absl::StatusOr<const Kernel*> DefaultKernel(const KernelCatalogue& catalogue,
                                            const KernelRequest& request);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_
