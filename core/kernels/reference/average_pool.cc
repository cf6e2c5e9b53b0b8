#include <vector>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/pictures.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

// Calls body(element of the pooled picture, element of the picture) for each element of each
// window.
template <typename Body>
void ForEachPooled(const KernelCall& call, const TensorView& picture, const TensorView& pooled,
                   const Body& body) {
  const Elements4<double> x = {picture}, y = {pooled};
  const PictureWindows windows = PoolingWindows(picture.shape, call.request.attributes);
  for (int64_t b = 0; b < picture.shape[0]; ++b) {
    ForEachWindow(windows, [&](int64_t row, int64_t column) {
      ForEachTap(windows, row, column, [&](int64_t /*i*/, int64_t /*j*/, int64_t h, int64_t w) {
        for (int64_t c = 0; c < picture.shape[3]; ++c) body(y(b, row, column, c), x(b, h, w, c));
      });
    });
  }
}

double ElementsOfWindow(const KernelCall& call) {
  const std::vector<int64_t>& window = call.request.attributes.GetInts("window");
  return static_cast<double>(window[0] * window[1]);
}

absl::Status AveragePool(const KernelCall& call) {
  const double count = ElementsOfWindow(call);
  SetZero(call.outputs[0]);
  ForEachPooled(call, call.inputs[0], call.outputs[0],
                [&](double& y, double x) { y += x / count; });
  return absl::OkStatus();
}

absl::Status AveragePoolGrad(const KernelCall& call) {
  const double count = ElementsOfWindow(call);
  SetZero(call.outputs[0]);
  ForEachPooled(call, call.outputs[0], call.inputs[0],
                [&](double dy, double& dx) { dx += dy / count; });
  return absl::OkStatus();
}

}  // namespace

void AddAveragePoolKernels(KernelList& list) {
  AddLoops(list, "average_pool", AveragePool);
  AddLoops(list, "average_pool_grad", AveragePoolGrad);
}

}  // namespace tessera::reference
