// The kinds of memory that hold a Program's buffers. Each has its own arena.
#ifndef TESSERA_CORE_PROGRAM_MEMORY_SPACE_H_
#define TESSERA_CORE_PROGRAM_MEMORY_SPACE_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "absl/strings/string_view.h"

namespace tessera {

enum class MemorySpace : uint8_t {
  kDevice,       // the backend's own memory
  kShared,       // shared between the ranks of a host: all memory that collectives access
  kPinnedHost,   // host memory that a device can copy to and from directly
  kOffloadHost,  // other host memory, for tensors that are not needed for a while
};
inline constexpr MemorySpace kAllMemorySpaces[] = {MemorySpace::kDevice, MemorySpace::kShared,
                                                   MemorySpace::kPinnedHost,
                                                   MemorySpace::kOffloadHost};
// "device", "shared", "pinned host", "offload host"
absl::string_view MemorySpaceName(MemorySpace space);

// One value of type T for each memory space.
template <typename T>
class BySpace {
 public:
  T& operator[](MemorySpace space) { return values_[static_cast<size_t>(space)]; }
  const T& operator[](MemorySpace space) const { return values_[static_cast<size_t>(space)]; }

 private:
  std::array<T, std::size(kAllMemorySpaces)> values_{};
};

// Bytes of each memory space.
class SpaceBytes : public BySpace<int64_t> {
 public:
  int64_t total() const {
    int64_t total = 0;
    for (const MemorySpace space : kAllMemorySpaces) total += (*this)[space];
    return total;
  }
  // Raises each entry to that of `other` if that is larger.
  void RaiseTo(const SpaceBytes& other) {
    for (const MemorySpace space : kAllMemorySpaces) {
      (*this)[space] = std::max((*this)[space], other[space]);
    }
  }
};

// The address of a byte in an arena.
struct ArenaAddress {
  MemorySpace space = MemorySpace::kDevice;
  int64_t offset = 0;

  friend ArenaAddress operator+(const ArenaAddress& a, int64_t bytes) {
    return {a.space, a.offset + bytes};
  }
  friend bool operator==(const ArenaAddress& a, const ArenaAddress& b) {
    return a.space == b.space && a.offset == b.offset;
  }
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_MEMORY_SPACE_H_
