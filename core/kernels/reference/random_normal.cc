#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/tensor/random.h"

namespace tessera::reference {
namespace {

absl::Status RandomNormal(const KernelCall& call) {
  const TensorView& y = call.outputs[0];
  const Attributes& attributes = call.request.attributes;
  const auto seed = static_cast<uint64_t>(*call.inputs[0].As<int64_t>());
  const double mean = attributes.GetDouble("mean"), stddev = attributes.GetDouble("stddev");
  const RandomStream stream = MakeStream(seed, call.draw->path);
  int64_t element = 0;
  ForEachIndex<1>(y.shape, {y.strides}, [&](int64_t i) {
    const int64_t index = IndexOf(*call.draw, y.shape, element++);
    y.As<double>()[i] = mean + stddev * tessera::RandomNormal(stream, 0, index);
  });
  return absl::OkStatus();
}

}  // namespace

void AddRandomNormalKernels(KernelList& list) { AddLoops(list, "random_normal", RandomNormal); }

}  // namespace tessera::reference
