#include "core/kernels/host/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

int64_t HostMemory::host_resident_bytes() const {
  const size_t page = sysconf(_SC_PAGESIZE);
  std::array<unsigned char, 4096> resident;  // a byte a page
  int64_t pages = 0;
  for (size_t begin = 0; begin < mapped_bytes_; begin += resident.size() * page) {
    const size_t bytes = std::min(mapped_bytes_ - begin, resident.size() * page);
    if (mincore(static_cast<char*>(mapping_) + begin, bytes, resident.data()) != 0) return 0;
    pages += std::count_if(resident.begin(), resident.begin() + (bytes + page - 1) / page,
                           [](unsigned char byte) { return (byte & 1) != 0; });
  }
  return pages * static_cast<int64_t>(page);
}

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
