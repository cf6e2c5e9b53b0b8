#include "core/ops/dropout.h"

#include <cmath>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/tensor/random.h"

namespace tessera::reference {
namespace {

absl::Status Dropout(const KernelCall& call) {
  const TensorView &x = call.inputs[DropoutInput::kX], &y = call.outputs[0];
  const Attributes& attributes = call.request.attributes;
  const auto seed = static_cast<uint64_t>(*call.inputs[DropoutInput::kSeed].As<int64_t>());
  const auto step = static_cast<uint64_t>(*call.inputs[DropoutInput::kStep].As<int64_t>());
  const double probability = attributes.GetDouble("probability");
  const auto threshold = static_cast<uint64_t>(std::round(probability * 0x1p32));
  const RandomStream stream = MakeStream(seed, call.draw->path);
  int64_t element = 0;
  ForEachIndex<2>(y.shape, {x.strides, y.strides}, [&](int64_t i, int64_t j) {
    const uint64_t index = IndexOf(*call.draw, y.shape, element++);
    const uint64_t word = RandomBlock(stream, step, index / 4)[index % 4];
    y.As<double>()[j] = word >= threshold ? x.As<double>()[i] / (1 - probability) : 0;
  });
  return absl::OkStatus();
}

}  // namespace

void AddDropoutKernels(KernelList& list) { AddLoops(list, "dropout", Dropout); }

}  // namespace tessera::reference
