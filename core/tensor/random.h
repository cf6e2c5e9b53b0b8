// How Tessera draws: a random number is a function of the run's seed, a path (of an operator or a
// parameter), the step, and the index of its element in the global tensor of the global batch. So
// every backend, layout, number of ranks and recomputed copy draws the same.
//
// A stream is the key of Philox4x32-10 (philox.h); block b of step s has the counter
// {low(b), high(b), low(s), high(s)}. A tensor of words takes word i % 4 of block i / 4 for its
// element i.
//
// Thread safety: everything here is a pure function.
#ifndef TESSERA_CORE_TENSOR_RANDOM_H_
#define TESSERA_CORE_TENSOR_RANDOM_H_

#include <cmath>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/tensor/philox.h"

namespace tessera {

struct RandomStream {
  uint64_t key = 0;
};

// Returns the stream of a path for a seed: key = Mix(Mix(seed) ^ XXH3_64bits(path)), where Mix is
// the finalizer of SplitMix64, a bijection. So two paths share a stream only if their hashes are
// equal (whatever the seed), and two seeds never share the stream of a path.
RandomStream MakeStream(uint64_t seed, absl::string_view path);

inline PhiloxBlock RandomBlock(RandomStream stream, uint64_t step, uint64_t block_index) {
  return Philox4x32({static_cast<uint32_t>(block_index), static_cast<uint32_t>(block_index >> 32),
                     static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
                    {static_cast<uint32_t>(stream.key), static_cast<uint32_t>(stream.key >> 32)});
}

// Returns the word of one element. To fill a tensor, draw complete blocks instead.
inline uint32_t RandomWord(RandomStream stream, uint64_t step, uint64_t element_index) {
  return RandomBlock(stream, step, element_index / 4)[element_index % 4];
}

// Returns 53 uniform bits of two words, as a multiple of 2^-53 in [0, 1).
inline double UniformFromBits(uint32_t high, uint32_t low) {
  return static_cast<double>(((uint64_t{high} << 32) | low) >> 11) * 0x1p-53;
}

// Returns that number plus 2^-53, which is in (0, 1], so that its logarithm is finite.
inline double PositiveUniformFromBits(uint32_t high, uint32_t low) {
  return UniformFromBits(high, low) + 0x1p-53;
}

// Box-Muller on one block: words 0 and 1 (high, low) give the radius, words 2 and 3 the angle.
// Mean 0, variance 1, never further from 0 than 8.58 = sqrt(2 log(2^53)).
inline double NormalFromBlock(const PhiloxBlock& block) {
  constexpr double kTwoPi = 6.283185307179586476925;
  const double radius = std::sqrt(-2.0 * std::log(PositiveUniformFromBits(block[0], block[1])));
  return radius * std::cos(kTwoPi * UniformFromBits(block[2], block[3]));
}

// The normal number of one element, from all of block `element_index`: no two elements share words.
inline double RandomNormal(RandomStream stream, uint64_t step, uint64_t element_index) {
  return NormalFromBlock(RandomBlock(stream, step, element_index));
}

// The uniform number in [0, 1) of one element, from words 0 and 1 of block `element_index`.
inline double RandomUniform(RandomStream stream, uint64_t step, uint64_t element_index) {
  const PhiloxBlock block = RandomBlock(stream, step, element_index);
  return UniformFromBits(block[0], block[1]);
}

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_RANDOM_H_
