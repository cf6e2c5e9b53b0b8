// The memory of backends whose device is the host itself (reference, cpu). Pages come directly from
// the system, so that a page that is never touched is never resident.
//
// Thread safety: as DeviceMemory; allocating is thread-safe.
#ifndef TESSERA_CORE_KERNELS_HOST_HOST_MEMORY_H_
#define TESSERA_CORE_KERNELS_HOST_HOST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "core/kernels/interface/backend.h"

namespace tessera {

class HostMemory : public DeviceMemory {
 public:
  // Takes over a mapping of `mapped_bytes` at `mapping`, in which the memory starts at `data`.
  HostMemory(void* mapping, size_t mapped_bytes, void* data, int64_t bytes)
      : mapping_(mapping), mapped_bytes_(mapped_bytes), data_(data), bytes_(bytes) {}
  ~HostMemory() override;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  void* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }
  int64_t host_resident_bytes() const override;

 private:
  void* mapping_;
  size_t mapped_bytes_;
  void* data_;
  int64_t bytes_;
};

// Allocates `bytes` of memory (0 is allowed), filled with zeros and aligned to 4096 bytes.
//
// If `guarded`, an inaccessible page follows it, right after the last byte rounded up to
// kBufferAlignment. Its start is then aligned to kBufferAlignment only.
//
// Returns InvalidArgument if `bytes` is negative, and ResourceExhausted if the system has not
// enough memory.
absl::StatusOr<std::unique_ptr<HostMemory>> AllocateHostMemory(int64_t bytes, bool guarded = false);

}  // namespace tessera

#endif  // TESSERA_CORE_KERNELS_HOST_HOST_MEMORY_H_
