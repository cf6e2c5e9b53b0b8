#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/tensor/convert.h"

namespace tessera::cpu {
namespace {

absl::Status Fill(const KernelCall& call) {
  const TensorView& y = call.outputs[0];
  const double value = call.request.attributes.GetDouble("value");
  WithElementType(y.dtype, [&](auto type) {
    using T = decltype(type);
    const T element = Convert<T>(value);
    ParallelFor(call.request.threads, y.elements(), 16384, [&](int64_t begin, int64_t end) {
      std::fill(y.As<T>() + begin, y.As<T>() + end, element);
    });
  });
  return absl::OkStatus();
}

}  // namespace

void AddFillKernels(KernelList& list) { list.Add("fill", "loops", Fill, {}); }

}  // namespace tessera::cpu
