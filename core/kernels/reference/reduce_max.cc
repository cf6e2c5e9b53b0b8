#include "core/ops/reduce_max.h"

#include <cmath>
#include <limits>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/reduction.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status ReduceMax(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const Reduction reduction(call.request.attributes);
  ForEachIndex<2>(
      reduction.Kept(x.shape), {reduction.Kept(x.strides), reduction.KeptOfOutput(y.strides)},
      [&](int64_t first, int64_t j) {
        double max = -std::numeric_limits<double>::infinity();
        ForEachIndex<1>(reduction.Reduced(x.shape), {reduction.Reduced(x.strides)}, [&](int64_t i) {
          const double value = x.As<double>()[first + i];
          if (value > max || std::isnan(value)) max = value;
        });
        y.As<double>()[j] = max;
      });
  return absl::OkStatus();
}

absl::Status ReduceMaxGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[ReduceMaxGradInput::kDy],
                   &x = call.inputs[ReduceMaxGradInput::kX],
                   &y = call.inputs[ReduceMaxGradInput::kY];
  const TensorView& dx = call.outputs[0];
  const Reduction reduction(call.request.attributes);
  ForEachIndex<4>(reduction.Kept(x.shape),
                  {reduction.KeptOfOutput(dy.strides), reduction.Kept(x.strides),
                   reduction.KeptOfOutput(y.strides), reduction.Kept(dx.strides)},
                  [&](int64_t dy_offset, int64_t first_x, int64_t y_offset, int64_t first_dx) {
                    const double max = y.As<double>()[y_offset];
                    double count = 0;
                    ForEachIndex<1>(
                        reduction.Reduced(x.shape), {reduction.Reduced(x.strides)},
                        [&](int64_t i) { count += x.As<double>()[first_x + i] == max ? 1 : 0; });
                    const double share = dy.As<double>()[dy_offset] / count;
                    ForEachIndex<2>(reduction.Reduced(x.shape),
                                    {reduction.Reduced(x.strides), reduction.Reduced(dx.strides)},
                                    [&](int64_t i, int64_t j) {
                                      const bool is_max = x.As<double>()[first_x + i] == max;
                                      dx.As<double>()[first_dx + j] = is_max ? share : 0;
                                    });
                  });
  return absl::OkStatus();
}

}  // namespace

void AddReduceMaxKernels(KernelList& list) {
  AddLoops(list, "reduce_max", ReduceMax);
  AddLoops(list, "reduce_max_grad", ReduceMaxGrad);
}

}  // namespace tessera::reference
