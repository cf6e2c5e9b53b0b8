// The base of backends whose device is the host itself: kernels and copies have ended when
// they return.
#ifndef TESSERA_CORE_KERNELS_HOST_HOST_BACKEND_H_
#define TESSERA_CORE_KERNELS_HOST_HOST_BACKEND_H_

#include <cstdint>
#include <cstring>
#include <memory>

#include "core/kernels/host/host_memory.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

class HostBackend : public Backend {
 public:
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes, bool guarded) override {
    return AllocateHostMemory(bytes, guarded);
  }
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

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_HOST_HOST_BACKEND_H_
