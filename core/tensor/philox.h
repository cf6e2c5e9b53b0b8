// Philox4x32-10: the counter-based generator under every random number of Tessera.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC '11), and
// their library Random123. A block is a pure function of its counter and key: any element of any
// tensor can be drawn alone, on any rank, in any order. random.h defines the counters.
//
// Everything here is constexpr, keeps no state, and can be called from any thread and from device
// code.
#ifndef TESSERA_CORE_TENSOR_PHILOX_H_
#define TESSERA_CORE_TENSOR_PHILOX_H_

#include <array>
#include <cstdint>

namespace tessera {

using PhiloxBlock = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// One of the ten rounds: two 32 x 32 -> 64 bit products, whose halves are exchanged.
constexpr PhiloxBlock PhiloxRound(const PhiloxBlock& counter, const PhiloxKey& key) {
  const uint64_t product0 = uint64_t{0xD2511F53} * counter[0];
  const uint64_t product1 = uint64_t{0xCD9E8D57} * counter[2];
  return {
      static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
      static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
}

// Returns four uniform words.
constexpr PhiloxBlock Philox4x32(PhiloxBlock counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = PhiloxRound(counter, key);
    key = {key[0] + 0x9E3779B9u, key[1] + 0xBB67AE85u};
  }
  return counter;
}

}  // namespace tessera

#endif  // TESSERA_CORE_TENSOR_PHILOX_H_
