// convolution and its gradients by data and by weight: three sums over the same products.
#include "core/ops/convolution.h"

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/pictures.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

using Elements = Elements4<double>;

// Calls body(element of y, element of x, element of the weight) for each product of the
// convolution. Products of one element of y follow one another.
template <typename Body>
void ForEachProduct(const ConvolutionSizes& sizes, const Elements& y, const Elements& x,
                    const Elements& weight, const Body& body) {
  const int64_t in = sizes.group_in(), out = sizes.group_out();
  for (int64_t b = 0; b < sizes.batch; ++b) {
    ForEachWindow(sizes.windows, [&](int64_t row, int64_t column) {
      for (int64_t group = 0; group < sizes.groups; ++group) {
        for (int64_t o = group * out; o < (group + 1) * out; ++o) {
          ForEachTap(sizes.windows, row, column, [&](int64_t i, int64_t j, int64_t h, int64_t w) {
            for (int64_t c = 0; c < in; ++c) {
              body(y(b, row, column, o), x(b, h, w, group * in + c), weight(o, i, j, c));
            }
          });
        }
      }
    });
  }
}

absl::Status Convolution(const KernelCall& call) {
  const Elements x = {call.inputs[ConvolutionInput::kX]},
                 weight = {call.inputs[ConvolutionInput::kWeight]}, y = {call.outputs[0]};
  const ConvolutionSizes sizes(x.view.shape, weight.view.shape, call.request.attributes);
  SetZero(y.view);
  ForEachProduct(sizes, y, x, weight, [](double& sum, double a, double b) { sum += a * b; });
  return absl::OkStatus();
}

absl::Status ConvolutionGradData(const KernelCall& call) {
  const Elements dy = {call.inputs[ConvolutionGradDataInput::kDy]},
                 weight = {call.inputs[ConvolutionGradDataInput::kWeight]}, dx = {call.outputs[0]};
  const ConvolutionSizes sizes(dx.view.shape, weight.view.shape, call.request.attributes);
  SetZero(dx.view);
  ForEachProduct(sizes, dy, dx, weight, [](double a, double& sum, double b) { sum += a * b; });
  return absl::OkStatus();
}

absl::Status ConvolutionGradWeight(const KernelCall& call) {
  const Elements dy = {call.inputs[ConvolutionGradWeightInput::kDy]},
                 x = {call.inputs[ConvolutionGradWeightInput::kX]}, dweight = {call.outputs[0]};
  const ConvolutionSizes sizes(x.view.shape, dweight.view.shape, call.request.attributes);
  SetZero(dweight.view);
  ForEachProduct(sizes, dy, x, dweight, [](double a, double b, double& sum) { sum += a * b; });
  return absl::OkStatus();
}

}  // namespace

void AddConvolutionKernels(KernelList& list) {
  AddLoops(list, "convolution", Convolution);
  AddLoops(list, "convolution_grad_data", ConvolutionGradData);
  AddLoops(list, "convolution_grad_weight", ConvolutionGradWeight);
}

}  // namespace tessera::reference
