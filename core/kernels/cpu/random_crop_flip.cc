// random_crop_flip copies what each row of a window has of the picture, and sets the rest to 0.
#include "core/ops/random_crop_flip.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/tensor/random.h"

namespace tessera::cpu {
namespace {

// Copies `count` pixels in reverse order. `kChannels` is 0, or the number of channels.
template <int64_t kChannels>
void CopyReversed(const uint8_t* from, uint8_t* to, int64_t count, int64_t channels) {
  const int64_t size = kChannels == 0 ? channels : kChannels;
  for (int64_t j = 0; j < count; ++j) {
    const uint8_t* const pixel = from + (count - 1 - j) * size;
    for (int64_t c = 0; c < size; ++c) to[j * size + c] = pixel[c];
  }
}

void CopyReversed(const uint8_t* from, uint8_t* to, int64_t count, int64_t channels) {
  if (channels == 1) return CopyReversed<1>(from, to, count, channels);
  if (channels == 3) return CopyReversed<3>(from, to, count, channels);
  CopyReversed<0>(from, to, count, channels);
}

// Cuts the window out of one picture of [height, width, channels].
void Cut(const uint8_t* picture, const CropWindow& window, int64_t padding, const Shape& shape,
         uint8_t* to) {
  const int64_t height = shape[1], width = shape[2], channels = shape[3];
  const int64_t down = window.top - padding, across = window.left - padding;
  // The columns of the window, before the flip, that the picture has.
  const int64_t begin = std::max<int64_t>(0, -across), end = std::min(width, width - across);
  const int64_t count = end - begin, left = window.flipped ? width - end : begin;
  for (int64_t i = 0; i < height; ++i, to += width * channels) {
    if (i + down < 0 || i + down >= height) {
      std::memset(to, 0, width * channels);
      continue;
    }
    const uint8_t* const from = picture + ((i + down) * width + begin + across) * channels;
    std::memset(to, 0, left * channels);
    if (window.flipped) {
      CopyReversed(from, to + left * channels, count, channels);
    } else {
      std::memcpy(to + left * channels, from, count * channels);
    }
    std::memset(to + (left + count) * channels, 0, (width - left - count) * channels);
  }
}

absl::Status RandomCropFlip(const KernelCall& call) {
  using Input = RandomCropFlipInput;
  const TensorView &x = call.inputs[Input::kPictures], &y = call.outputs[0];
  if (y.elements() == 0) return absl::OkStatus();
  const Attributes& attributes = call.request.attributes;
  const auto seed = static_cast<uint64_t>(*call.inputs[Input::kSeed].As<int64_t>());
  const auto step = static_cast<uint64_t>(*call.inputs[Input::kStep].As<int64_t>());
  const int64_t padding = attributes.GetInt("padding");
  const bool flip = attributes.GetBool("flip");
  const RandomStream stream = MakeStream(seed, call.draw->path);
  const int64_t bytes = y.elements() / y.shape[0];  // of a picture
  const int64_t grain = std::max<int64_t>(1, 65536 / bytes);
  ParallelFor(call.request.threads, y.shape[0], grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const auto row = static_cast<uint64_t>(call.draw->start[0] + b);
      const CropWindow window = CropWindowOf(RandomBlock(stream, step, row), padding, flip);
      Cut(x.As<uint8_t>() + b * bytes, window, padding, y.shape, y.As<uint8_t>() + b * bytes);
    }
  });
  return absl::OkStatus();
}

}  // namespace

void AddRandomCropFlipKernels(KernelList& list) {
  list.Add("random_crop_flip", "loops", RandomCropFlip, kRowMajor);
}

}  // namespace tessera::cpu
