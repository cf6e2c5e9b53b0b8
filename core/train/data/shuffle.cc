#include "core/train/data/shuffle.h"

#include "core/status/check.h"

namespace tessera {
namespace {

// Four rounds are indistinguishable from a random permutation of a large set (Luby, Rackoff 1988);
// small sets have few round functions to choose from and need more rounds.
constexpr int kRounds = 8;

}  // namespace

Shuffle::Shuffle(RandomStream stream, uint64_t epoch, int64_t count)
    : stream_(stream), epoch_(epoch), count_(static_cast<uint64_t>(count)), half_bits_(1) {
  // One comparison: counts below 1 wrap around.
  TESSERA_CHECK(count_ - 1 < uint64_t{1} << 62) << "count " << count;
  while ((uint64_t{1} << (2 * half_bits_)) < count_) ++half_bits_;
}

uint64_t Shuffle::Permute(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t block = (uint64_t{static_cast<uint32_t>(round)} << 32) | right;
    const uint64_t next = left ^ (RandomBlock(stream_, epoch_, block)[0] & mask);
    left = right;
    right = next;
  }
  return (left << half_bits_) | right;
}

int64_t Shuffle::operator()(int64_t position) const {
  TESSERA_CHECK(position >= 0 && static_cast<uint64_t>(position) < count_) << position;
  uint64_t value = static_cast<uint64_t>(position);
  do {
    value = Permute(value);
  } while (value >= count_);
  return static_cast<int64_t>(value);
}

}  // namespace tessera
