// A backend: a set of kernels, a device memory, and copies in and out of it. Nothing above a
// backend dereferences a device pointer.
//
// Thread safety: const methods may run concurrently; copies and Synchronize come from the thread
// that runs kernels.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_
#define TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/kernels/interface/kernel.h"
#include "core/tensor/dtype.h"

namespace tessera {

// Device memory; freed when this goes.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
  // Bytes of it that the host's memory holds now: none where the device has its own.
  virtual int64_t host_resident_bytes() const { return 0; }
};

class Backend {
 public:
  virtual ~Backend() = default;

  // "cpu", "reference"
  virtual absl::string_view name() const = 0;
  // Every kernel; of those that accept a request, the first is the default.
  virtual absl::Span<const Kernel* const> kernels() const = 0;
  virtual Processor processor() const = 0;

  // The dtype in which values of the Graph's dtype are kept (the reference keeps floats in f64).
  virtual DType Realize(DType dtype) const { return dtype; }

  // Memory of at least `bytes` (0 is allowed), aligned to 4096 bytes, not initialised and not
  // counted as resident before it is touched where the device can say so. With `guarded`, the
  // byte after the last one (rounded up to `kBufferAlignment`) cannot be touched, where the device
  // can do that; Unimplemented elsewhere. ResourceExhausted if there is not so much.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes, bool guarded) = 0;

  virtual absl::Status CopyToDevice(void* device, const void* host, int64_t bytes) = 0;
  virtual absl::Status CopyToHost(void* host, const void* device, int64_t bytes) = 0;
  // Returns when all that was started has ended, with the first error of any of it.
  virtual absl::Status Synchronize() = 0;
};

// Every buffer starts at a multiple of this many bytes.
inline constexpr int64_t kBufferAlignment = 64;

// Kernels of `backend` for `op` that accept the request, defaults first.
std::vector<const Kernel*> CandidateKernels(const Backend& backend, const KernelRequest& request);

// The default kernel; NotFound names the operator, the types and the backend.
absl::StatusOr<const Kernel*> DefaultKernel(const Backend& backend, const KernelRequest& request);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_BACKEND_H_
