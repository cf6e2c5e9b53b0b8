// The positions of the operands of random_crop_flip, and the window that is cut from a picture.
#ifndef TESSERA_CORE_OPS_RANDOM_CROP_FLIP_H_
#define TESSERA_CORE_OPS_RANDOM_CROP_FLIP_H_

#include <cstdint>

#include "core/tensor/philox.h"

namespace tessera {

struct RandomCropFlipInput {
  enum : int { kPictures, kSeed, kStep };
};

struct CropWindow {
  int64_t top, left;  // in the padded picture
  bool flipped;       // left and right are exchanged
};

// Returns the window that the random words of a picture choose.
inline CropWindow CropWindowOf(const PhiloxBlock& words, int64_t padding, bool flip) {
  const auto positions = static_cast<uint64_t>(2 * padding + 1);
  return {static_cast<int64_t>((words[0] * positions) >> 32),
          static_cast<int64_t>((words[1] * positions) >> 32), flip && (words[2] >> 31) != 0};
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_RANDOM_CROP_FLIP_H_
