// Computed in double with the C library's functions, like the reference, so that every backend
// gives the same bits.
#include <cstdint>

#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/global_indices.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/tensor/convert.h"
#include "core/tensor/random.h"

namespace tessera::cpu {
namespace {

absl::Status RandomNormal(const KernelCall& call) {
  const TensorView& y = call.outputs[0];
  const Attributes& attributes = call.request.attributes;
  const auto seed = static_cast<uint64_t>(*call.inputs[0].As<int64_t>());
  const RandomStream stream = MakeStream(seed, call.draw->path);
  const double mean = attributes.GetDouble("mean"), stddev = attributes.GetDouble("stddev");
  const GlobalIndices indices(*call.draw, y.shape);
  WithFloatType(y.dtype, [&](auto type) {
    using T = decltype(type);
    ParallelFor(call.request.threads, y.elements(), 1024, [&](int64_t begin, int64_t end) {
      indices.ForEachRun(begin, end, [&](int64_t first, int64_t count, int64_t index) {
        for (int64_t i = 0; i < count; ++i) {
          y.As<T>()[first + i] =
              Convert<T>(mean + stddev * tessera::RandomNormal(stream, 0, index + i));
        }
      });
    });
  });
  return absl::OkStatus();
}

}  // namespace

void AddRandomNormalKernels(KernelList& list) {
  list.Add("random_normal", "loops", RandomNormal, kRowMajor);
}

}  // namespace tessera::cpu
