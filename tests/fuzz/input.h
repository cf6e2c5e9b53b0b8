// Reads values from the bytes of a fuzzer.
#ifndef TESSERA_TESTS_FUZZ_INPUT_H_
#define TESSERA_TESTS_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace tessera::comm {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  // Returns the next bytes as a value; zeros after the end.
  template <typename T>
  T Take() {
    return TakeFirst<T>(sizeof(T));
  }
  // Returns the next bytes as the first `bytes` bytes of a value.
  template <typename T>
  T TakeFirst(size_t bytes) {
    T value = {};
    const absl::string_view text = TakeText(bytes);
    std::memcpy(static_cast<void*>(&value), text.data(), text.size());
    return value;
  }
  // Returns at most the next `bytes` bytes as text.
  absl::string_view TakeText(size_t bytes) {
    const absl::string_view text = rest_.substr(0, bytes);
    rest_.remove_prefix(text.size());
    return text;
  }
  // Returns a text that is preceded by two bytes with its length.
  absl::string_view TakeRecord() { return TakeText(Take<uint16_t>()); }
  absl::string_view TakeRest() { return TakeText(rest_.size()); }

 private:
  absl::string_view rest_;
};

// Lengths of the parts in which a stream arrives: the same for the same seed.
class Pieces {
 public:
  explicit Pieces(uint8_t seed) : state_(seed) {}

  // Returns the next length, at most `left`: often small, sometimes all of it.
  size_t Next(size_t left) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const size_t random = state_ >> 33;
    return std::min(left, 1 + (random % 4 == 0 ? left : random / 4 % 200));
  }

 private:
  uint64_t state_;
};

}  // namespace tessera::comm

#endif  // TESSERA_TESTS_FUZZ_INPUT_H_
