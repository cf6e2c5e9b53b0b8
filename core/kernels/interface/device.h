// A device: memory, streams of work, and copies in and out of it. Nothing above a backend
// dereferences a device pointer.
//
// Thread safety: one thread at a time; Allocate may be called by any thread.
#ifndef TESSERA_CORE_KERNELS_INTERFACE_DEVICE_H_
#define TESSERA_CORE_KERNELS_INTERFACE_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Owns device memory and frees it when destroyed.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
  // Returns how many of its bytes are resident in the host's memory now: 0 if the device has its
  // own memory.
  virtual int64_t host_resident_bytes() const { return 0; }
};

// An ordered queue of work on a device: the work of one stream runs one after another. Work on
// several streams may run at the same time, unless one waits for an event of another. A stream is
// not necessarily a thread: on the host, work has ended when the call that issues it returns.
class Stream {
 public:
  virtual ~Stream() = default;
};

// A point in the work of a stream.
class Event {
 public:
  virtual ~Event() = default;
  // Returns when the stream reached this point, in nanoseconds of a clock that all events of a
  // device share. Call it after Device::Synchronize.
  virtual int64_t Nanoseconds() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Allocates at least `bytes` (0 is allowed), aligned to 4096 bytes and not initialised. If the
  // device can tell, memory does not count as resident before it is touched. If `guarded`,
  // accessing the byte after the last one (rounded up to `kBufferAlignment`) faults; a device that
  // cannot do that returns Unimplemented. Returns ResourceExhausted if there is not enough memory.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes, bool guarded) = 0;

  // The device must outlive its streams and events. `name` is for profilers.
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  // Places the event after all work that was issued on the stream so far.
  virtual absl::Status Record(Event& event, Stream& stream) = 0;
  // Makes all work issued on the stream from now on wait for the event, as it was last recorded.
  virtual absl::Status Wait(Stream& stream, const Event& event) = 0;

  // Issues a copy between any two memories of the device or the host; the ranges do not overlap.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes, Stream& stream) = 0;
  // Copy bytes to or from the device, and return when the copy has ended.
  virtual absl::Status CopyToDevice(void* device, const void* host, int64_t bytes) = 0;
  virtual absl::Status CopyToHost(void* host, const void* device, int64_t bytes) = 0;

  // Returns when all work on all streams has ended, with the first error of it.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_DEVICE_H_
