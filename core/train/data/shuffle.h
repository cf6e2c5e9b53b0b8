// A random permutation of n items without a table: the item at any position takes O(1).
//
// A Feistel network permutes the smallest set of 4^k >= n numbers, for any round function. A result
// of n or more is permuted again until it is below n (cycle walking), which is a permutation of the
// n items. On average that takes fewer than four iterations.
#ifndef TESSERA_CORE_TRAIN_DATA_SHUFFLE_H_
#define TESSERA_CORE_TRAIN_DATA_SHUFFLE_H_

#include <cstdint>

#include "core/tensor/random.h"

namespace tessera {

// Thread safety: immutable.
class Shuffle {
 public:
  // A permutation of [0, count), 1 <= count <= 2^62, determined by the stream and the epoch.
  Shuffle(RandomStream stream, uint64_t epoch, int64_t count);

  // Returns the item at a position; both are in [0, count).
  int64_t operator()(int64_t position) const;

 private:
  uint64_t Permute(uint64_t value) const;

  RandomStream stream_;
  uint64_t epoch_;
  uint64_t count_;
  int half_bits_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_DATA_SHUFFLE_H_
