// max_pool and its gradient. The first of equal elements is the maximum; a NaN is larger than every
// number.
#include "core/ops/max_pool.h"

#include <cmath>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/pictures.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

bool IsLarger(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

absl::Status MaxPool(const KernelCall& call) {
  const Elements4<double> x = {call.inputs[0]}, y = {call.outputs[MaxPoolOutput::kY]};
  const Elements4<uint8_t> index = {call.outputs[MaxPoolOutput::kIndex]};
  const Shape& shape = x.view.shape;
  const PictureWindows windows = PoolingWindows(shape, call.request.attributes);
  for (int64_t b = 0; b < shape[0]; ++b) {
    ForEachWindow(windows, [&](int64_t row, int64_t column) {
      for (int64_t c = 0; c < shape[3]; ++c) {
        bool is_first = true;
        double& max = y(b, row, column, c);
        ForEachTap(windows, row, column, [&](int64_t i, int64_t j, int64_t h, int64_t w) {
          if (!is_first && !IsLarger(x(b, h, w, c), max)) return;
          is_first = false;
          max = x(b, h, w, c);
          index(b, row, column, c) = static_cast<uint8_t>(i * windows.horizontal.taps + j);
        });
      }
    });
  }
  return absl::OkStatus();
}

absl::Status MaxPoolGrad(const KernelCall& call) {
  const Elements4<double> dy = {call.inputs[MaxPoolGradInput::kDy]}, dx = {call.outputs[0]};
  const Elements4<uint8_t> index = {call.inputs[MaxPoolGradInput::kIndex]};
  const Shape& shape = dx.view.shape;
  const PictureWindows windows = PoolingWindows(shape, call.request.attributes);
  SetZero(dx.view);
  for (int64_t b = 0; b < shape[0]; ++b) {
    ForEachWindow(windows, [&](int64_t row, int64_t column) {
      for (int64_t c = 0; c < shape[3]; ++c) {
        ForEachTap(windows, row, column, [&](int64_t i, int64_t j, int64_t h, int64_t w) {
          if (index(b, row, column, c) != i * windows.horizontal.taps + j) return;
          dx(b, h, w, c) += dy(b, row, column, c);
        });
      }
    });
  }
  return absl::OkStatus();
}

}  // namespace

void AddMaxPoolKernels(KernelList& list) {
  AddLoops(list, "max_pool", MaxPool);
  AddLoops(list, "max_pool_grad", MaxPoolGrad);
}

}  // namespace tessera::reference
