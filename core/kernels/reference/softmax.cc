#include "core/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

template <typename Dims>
Dims WithoutAxis(Dims dims, int64_t axis) {
  dims.erase(dims.begin() + axis);
  return dims;
}

absl::Status Softmax(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const int64_t axis = call.request.attributes.GetInt("axis");
  const int64_t count = y.shape[axis];
  ForEachIndex<2>(WithoutAxis(y.shape, axis),
                  {WithoutAxis(x.strides, axis), WithoutAxis(y.strides, axis)},
                  [&](int64_t i, int64_t j) {
                    const Line x_line{x.As<double>() + i, x.strides[axis]};
                    const Line y_line{y.As<double>() + j, y.strides[axis]};
                    double max = -std::numeric_limits<double>::infinity();
                    for (int64_t c = 0; c < count; ++c) max = std::max(max, x_line[c]);
                    double sum = 0;
                    for (int64_t c = 0; c < count; ++c) sum += std::exp(x_line[c] - max);
                    for (int64_t c = 0; c < count; ++c) {
                      y_line[c] = std::exp(x_line[c] - max) / sum;
                    }
                  });
  return absl::OkStatus();
}

absl::Status SoftmaxGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[SoftmaxGradInput::kDy], &y = call.inputs[SoftmaxGradInput::kY],
                   &dx = call.outputs[0];
  const int64_t axis = call.request.attributes.GetInt("axis");
  const int64_t count = dx.shape[axis];
  ForEachIndex<3>(
      WithoutAxis(dx.shape, axis),
      {WithoutAxis(dy.strides, axis), WithoutAxis(y.strides, axis), WithoutAxis(dx.strides, axis)},
      [&](int64_t i, int64_t j, int64_t k) {
        const Line dy_line{dy.As<double>() + i, dy.strides[axis]};
        const Line y_line{y.As<double>() + j, y.strides[axis]};
        const Line dx_line{dx.As<double>() + k, dx.strides[axis]};
        const double dot = Dot(dy_line, y_line, count);
        for (int64_t c = 0; c < count; ++c) dx_line[c] = y_line[c] * (dy_line[c] - dot);
      });
  return absl::OkStatus();
}

}  // namespace

void AddSoftmaxKernels(KernelList& list) {
  AddLoops(list, "softmax", Softmax);
  AddLoops(list, "softmax_grad", SoftmaxGrad);
}

}  // namespace tessera::reference
