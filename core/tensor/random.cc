#include "core/tensor/random.h"

#include <xxhash.h>

namespace tessera {
namespace {

// The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number
// Generators", OOPSLA 2014), after the first step of its counter, so that 0 is not mapped to 0.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace

RandomStream MakeStream(uint64_t seed, absl::string_view path) {
  return {Mix(Mix(seed) ^ XXH3_64bits(path.data(), path.size()))};
}

}  // namespace tessera
