#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/region.h"
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
  const GlobalIndices global = IndicesInGlobal(*call.draw);
  ForEachIndex<2>(y.shape, {y.strides, global.strides}, [&](int64_t i, int64_t offset) {
    y.As<double>()[i] = mean + stddev * tessera::RandomNormal(stream, 0, global.first + offset);
  });
  return absl::OkStatus();
}

}  // namespace

void AddRandomNormalKernels(KernelList& list) { AddLoops(list, "random_normal", RandomNormal); }

}  // namespace tessera::reference
