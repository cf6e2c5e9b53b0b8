#include "core/kernels/reference/backend.h"

#include <cstring>

#include "core/kernels/host/host_memory.h"
#include "core/kernels/reference/kernel_list.h"

namespace tessera {
namespace {

class ReferenceBackend : public Backend {
 public:
  absl::string_view name() const override { return "reference"; }
  absl::Span<const Kernel* const> kernels() const override { return reference::Kernels(); }
  Processor processor() const override { return {.name = "reference", .threads = 1}; }

  DType Realize(DType dtype) const override { return IsFloating(dtype) ? DType::kF64 : dtype; }

  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes, bool guarded) override {
    return AllocateHostMemory(bytes, guarded);
  }

  // Kernels and copies have ended when they return.
  absl::Status CopyToDevice(void* device, const void* host, int64_t bytes) override {
    if (bytes > 0) std::memcpy(device, host, bytes);
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* host, const void* device, int64_t bytes) override {
    if (bytes > 0) std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
};

}  // namespace

std::unique_ptr<Backend> MakeReferenceBackend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace tessera
