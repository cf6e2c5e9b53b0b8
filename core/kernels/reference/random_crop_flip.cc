#include "core/ops/random_crop_flip.h"

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/tensor/random.h"

namespace tessera::reference {
namespace {

absl::Status RandomCropFlip(const KernelCall& call) {
  using Input = RandomCropFlipInput;
  const TensorView &x = call.inputs[Input::kPictures], &y = call.outputs[0];
  const Attributes& attributes = call.request.attributes;
  const auto seed = static_cast<uint64_t>(*call.inputs[Input::kSeed].As<int64_t>());
  const auto step = static_cast<uint64_t>(*call.inputs[Input::kStep].As<int64_t>());
  const int64_t padding = attributes.GetInt("padding");
  const int64_t height = y.shape[1], width = y.shape[2], channels = y.shape[3];
  const RandomStream stream = MakeStream(seed, call.draw->path);
  const auto offset = [](const TensorView& view, int64_t b, int64_t i, int64_t j, int64_t c) {
    return b * view.strides[0] + i * view.strides[1] + j * view.strides[2] + c * view.strides[3];
  };
  for (int64_t b = 0; b < y.shape[0]; ++b) {
    const auto row = static_cast<uint64_t>(call.draw->start[0] + b);
    const CropWindow window =
        CropWindowOf(RandomBlock(stream, step, row), padding, attributes.GetBool("flip"));
    for (int64_t i = 0; i < height; ++i) {
      for (int64_t j = 0; j < width; ++j) {
        const int64_t from_i = window.top + i - padding;
        const int64_t from_j = window.left + (window.flipped ? width - 1 - j : j) - padding;
        const bool inside = from_i >= 0 && from_i < height && from_j >= 0 && from_j < width;
        for (int64_t c = 0; c < channels; ++c) {
          y.As<uint8_t>()[offset(y, b, i, j, c)] =
              inside ? x.As<uint8_t>()[offset(x, b, from_i, from_j, c)] : 0;
        }
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddRandomCropFlipKernels(KernelList& list) {
  AddLoops(list, "random_crop_flip", RandomCropFlip);
}

}  // namespace tessera::reference
