#include "core/cost/kernel_times/random_elements.h"

#include "core/tensor/convert.h"
#include "core/tensor/element_type.h"

namespace tessera {

std::vector<char> RandomElements(DType dtype, int64_t count, uint64_t seed) {
  std::vector<char> bytes(static_cast<size_t>(count) * SizeOf(dtype));
  if (!IsFloating(dtype)) return bytes;
  WithElementType(dtype, [&](auto element) {
    using T = decltype(element);
    T* const elements = reinterpret_cast<T*>(bytes.data());
    // The linear congruential generator of Knuth's MMIX.
    uint64_t state = seed;
    for (int64_t i = 0; i < count; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      elements[i] = Convert<T>(static_cast<double>(state >> 40) / (1 << 25) - 0.25);
    }
  });
  return bytes;
}

}  // namespace tessera
