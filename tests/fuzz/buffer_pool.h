// Buffers with gaps between them, which a sanitizer guards.
#ifndef TESSERA_TESTS_FUZZ_BUFFER_POOL_H_
#define TESSERA_TESTS_FUZZ_BUFFER_POOL_H_

#include <sanitizer/asan_interface.h>

#include <cstdint>
#include <memory>

#include "core/status/check.h"

namespace tessera::comm {

// Their memory stays mapped, because mapping it for each input would take most of the time.
//
// Thread safety: none.
class BufferPool {
 public:
  // Makes a pool for the inputs and outputs of so many operations, of `bytes` in total.
  BufferPool(int64_t bytes, int operations)
      : bytes_(bytes + 4 * kGap * operations), memory_(new char[bytes_]) {}

  char* Take(int64_t bytes) {
    char* const data = memory_.get() + used_;
    used_ += (bytes + 2 * kGap - 1) / kGap * kGap;
    TESSERA_CHECK(used_ <= bytes_) << used_;
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
    return data;
  }
  void TakeAllBack() {
    ASAN_POISON_MEMORY_REGION(memory_.get(), bytes_);
    used_ = 0;
  }

 private:
  static constexpr int64_t kGap = 64;
  const int64_t bytes_;
  const std::unique_ptr<char[]> memory_;
  int64_t used_ = 0;
};

}  // namespace tessera::comm

#endif  // TESSERA_TESTS_FUZZ_BUFFER_POOL_H_
