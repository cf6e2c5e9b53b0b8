// Functions of one element.
#include <cmath>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

template <typename Compute>
absl::Status ForEachElement(const KernelCall& call, Compute compute) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  ForEachIndex<2>(y.shape, {x.strides, y.strides},
                  [&](int64_t i, int64_t j) { y.As<double>()[j] = compute(x.As<double>()[i]); });
  return absl::OkStatus();
}

absl::Status Exp(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return std::exp(x); });
}
absl::Status Log(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return std::log(x); });
}
absl::Status Sqrt(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return std::sqrt(x); });
}
absl::Status Rsqrt(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return 1 / std::sqrt(x); });
}
absl::Status Reciprocal(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return 1 / x; });
}
absl::Status Negate(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return -x; });
}
absl::Status Square(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return x * x; });
}
absl::Status Tanh(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return std::tanh(x); });
}
absl::Status Sigmoid(const KernelCall& call) {
  return ForEachElement(call, [](double x) { return 1 / (1 + std::exp(-x)); });
}

}  // namespace

void AddUnaryKernels(KernelList& list) {
  AddLoops(list, "exp", Exp);
  AddLoops(list, "log", Log);
  AddLoops(list, "sqrt", Sqrt);
  AddLoops(list, "rsqrt", Rsqrt);
  AddLoops(list, "reciprocal", Reciprocal);
  AddLoops(list, "negate", Negate);
  AddLoops(list, "square", Square);
  AddLoops(list, "tanh", Tanh);
  AddLoops(list, "sigmoid", Sigmoid);
}

}  // namespace tessera::reference
