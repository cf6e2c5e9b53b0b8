// The base of backends whose device is the host itself: kernels and copies have ended when they
// return, so streams and events have nothing to wait for.
#ifndef TESSERA_CORE_KERNELS_HOST_HOST_BACKEND_H_
#define TESSERA_CORE_KERNELS_HOST_HOST_BACKEND_H_

#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/kernels/host/host_memory.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

// An event whose clock is the host's steady clock.
class HostEvent : public Event {
 public:
  int64_t Nanoseconds() const override { return nanoseconds_; }
  void Record() {
    nanoseconds_ = std::chrono::duration_cast<std::chrono::nanoseconds>(
                       std::chrono::steady_clock::now().time_since_epoch())
                       .count();
  }

 private:
  int64_t nanoseconds_ = 0;
};

class HostBackend : public Backend {
 public:
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes, bool guarded) override {
    return AllocateHostMemory(bytes, guarded);
  }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) override {
    return std::make_unique<Stream>();
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return std::make_unique<HostEvent>();
  }
  absl::Status Record(Event& event, Stream& stream) override {
    static_cast<HostEvent&>(event).Record();
    return absl::OkStatus();
  }
  absl::Status Wait(Stream& stream, const Event& event) override { return absl::OkStatus(); }

  absl::Status Copy(void* to, const void* from, int64_t bytes, Stream& stream) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
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
