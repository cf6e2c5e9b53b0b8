#include "core/kernels/host/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

constexpr int64_t kAlignment = 4096;

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

absl::Status OutOfMemory(int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the host has no ", bytes, " bytes of memory: ", std::strerror(errno)));
}

}  // namespace

HostMemory::~HostMemory() { munmap(mapping_, mapped_bytes_); }

absl::StatusOr<std::unique_ptr<HostMemory>> AllocateHostMemory(int64_t bytes, bool guarded) {
  const int64_t page = std::max<int64_t>(kAlignment, sysconf(_SC_PAGESIZE));
  if (bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  }
  if (bytes > INT64_MAX / 2) {
    errno = ENOMEM;
    return OutOfMemory(bytes);
  }
  // At least one page, so that even an empty memory has an address.
  const int64_t usable = std::max(page, RoundUp(bytes, page));
  const int64_t mapped = usable + (guarded ? page : 0);
  void* mapping =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (mapping == MAP_FAILED) return OutOfMemory(bytes);
  char* data = static_cast<char*>(mapping);
  auto memory = std::make_unique<HostMemory>(
      mapping, mapped, guarded ? data + usable - RoundUp(bytes, kBufferAlignment) : data, bytes);
  if (guarded && mprotect(data + usable, page, PROT_NONE) != 0) return OutOfMemory(bytes);
  return memory;
}

}  // namespace tessera
