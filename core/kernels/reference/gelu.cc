// GELU: x times the normal distribution function at x, or its approximation by a tanh. Source:
// Hendrycks, Gimpel, "Gaussian Error Linear Units" (2016).
#include "core/ops/gelu.h"

#include <cmath>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;          // sqrt(1 / 2)
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;     // sqrt(2 / pi)
constexpr double kOneOverSqrtTwoPi = 0.39894228040143267794;  // 1 / sqrt(2 pi)
constexpr double kCubic = 0.044715;

bool Approximate(const KernelCall& call) {
  return call.request.attributes.GetString("approximate") == "tanh";
}

double TanhArgument(double x) { return kSqrtTwoOverPi * (x + kCubic * x * x * x); }

double Value(double x, bool approximate) {
  const double share =
      approximate ? 0.5 * (1 + std::tanh(TanhArgument(x))) : 0.5 * (1 + std::erf(x * kSqrtHalf));
  return x * share;
}

double Derivative(double x, bool approximate) {
  if (approximate) {
    const double t = std::tanh(TanhArgument(x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kSqrtTwoOverPi * (1 + 3 * kCubic * x * x);
  }
  return 0.5 * (1 + std::erf(x * kSqrtHalf)) + x * kOneOverSqrtTwoPi * std::exp(-0.5 * x * x);
}

absl::Status Gelu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const bool approximate = Approximate(call);
  ForEachIndex<2>(y.shape, {x.strides, y.strides}, [&](int64_t i, int64_t j) {
    y.As<double>()[j] = Value(x.As<double>()[i], approximate);
  });
  return absl::OkStatus();
}

absl::Status GeluGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[GeluGradInput::kDy], &x = call.inputs[GeluGradInput::kX],
                   &dx = call.outputs[0];
  const bool approximate = Approximate(call);
  ForEachIndex<3>(
      dx.shape, {dy.strides, x.strides, dx.strides}, [&](int64_t i, int64_t j, int64_t k) {
        dx.As<double>()[k] = dy.As<double>()[i] * Derivative(x.As<double>()[j], approximate);
      });
  return absl::OkStatus();
}

}  // namespace

void AddGeluKernels(KernelList& list) {
  AddLoops(list, "gelu", Gelu);
  AddLoops(list, "gelu_grad", GeluGrad);
}

}  // namespace tessera::reference
