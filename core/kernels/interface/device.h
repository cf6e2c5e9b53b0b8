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

// Device memory; freed when this goes.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual void* data() const = 0;
  virtual int64_t bytes() const = 0;
  // Bytes of it that the host's memory holds now: none where the device has its own.
  virtual int64_t host_resident_bytes() const { return 0; }
};

// An order of work on a device: what is issued on a stream runs one after another. Work on several
// streams may run at the same time, unless one waits for an event of another. A stream is not
// necessarily a thread: on a host, work has ended when the call that issues it returns.
class Stream {
 public:
  virtual ~Stream() = default;
};

// A point in the work of a stream.
class Event {
 public:
  virtual ~Event() = default;
  // When the stream came there, in nanoseconds of a clock that all events of a device share. Known
  // after Device::Synchronize.
  virtual int64_t Nanoseconds() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  // Memory of at least `bytes` (0 is allowed), aligned to 4096 bytes, not initialised and not
  // counted as resident before it is touched where the device can say so. With `guarded`, the
  // byte after the last one (rounded up to `kBufferAlignment`) cannot be touched, where the device
  // can do that; Unimplemented elsewhere. ResourceExhausted if there is not so much.
  virtual absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(int64_t bytes, bool guarded) = 0;

  // The device must outlive its streams and events. `name` is for profilers.
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent() = 0;
  // Moves the event to the end of what was issued on the stream so far.
  virtual absl::Status Record(Event& event, Stream& stream) = 0;
  // Lets all that is issued on the stream from now on run after the event, where it was last
  // recorded.
  virtual absl::Status Wait(Stream& stream, const Event& event) = 0;

  // Issues a copy between any two memories of the device or the host; the ranges do not overlap.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes, Stream& stream) = 0;
  // Return when the bytes are there.
  virtual absl::Status CopyToDevice(void* device, const void* host, int64_t bytes) = 0;
  virtual absl::Status CopyToHost(void* host, const void* device, int64_t bytes) = 0;

  // Returns when all that was started on any stream has ended, with the first error of any of it.
  virtual absl::Status Synchronize() = 0;
};

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_INTERFACE_DEVICE_H_
