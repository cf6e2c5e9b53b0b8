// add, subtract, multiply, divide, maximum, minimum: with numpy's broadcasting.
#include <cmath>
#include <type_traits>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

// `compute(a, b)` is called with two doubles, or with two integers.
template <typename Compute>
absl::Status ForEachPair(const KernelCall& call, Compute compute) {
  const TensorView &a = call.inputs[0], &b = call.inputs[1], &y = call.outputs[0];
  WithKeptType(y.dtype, [&](auto type) {
    using T = decltype(type);
    ForEachIndex<3>(y.shape,
                    {BroadcastStrides(a, y.shape), BroadcastStrides(b, y.shape), y.strides},
                    [&](int64_t i, int64_t j, int64_t k) {
                      y.As<T>()[k] = compute(a.As<T>()[i], b.As<T>()[j]);
                    });
  });
  return absl::OkStatus();
}

// Integers wrap around: they are computed as unsigned numbers.
template <typename T, typename Compute>
T Wrapping(T a, T b, Compute compute) {
  if constexpr (std::is_floating_point_v<T>) {
    return compute(a, b);
  } else {
    return static_cast<T>(compute(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  }
}

struct Quotient {
  double operator()(double a, double b) const { return a / b; }
  // Truncates toward zero. Cases that would trap are defined: x / 0 is 0, and x / -1 wraps around.
  template <typename T>
  T operator()(T a, T b) const {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return Wrapping(T{0}, a, [](auto zero, auto x) { return zero - x; });
    }
    return a / b;
  }
};

struct Larger {
  // Returns NaN if either operand is NaN.
  double operator()(double a, double b) const { return a > b || std::isnan(a) ? a : b; }
  template <typename T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

struct Smaller {
  double operator()(double a, double b) const { return a < b || std::isnan(a) ? a : b; }
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

absl::Status Add(const KernelCall& call) {
  return ForEachPair(
      call, [](auto a, auto b) { return Wrapping(a, b, [](auto x, auto y) { return x + y; }); });
}
absl::Status Subtract(const KernelCall& call) {
  return ForEachPair(
      call, [](auto a, auto b) { return Wrapping(a, b, [](auto x, auto y) { return x - y; }); });
}
absl::Status Multiply(const KernelCall& call) {
  return ForEachPair(
      call, [](auto a, auto b) { return Wrapping(a, b, [](auto x, auto y) { return x * y; }); });
}
absl::Status Divide(const KernelCall& call) { return ForEachPair(call, Quotient()); }
absl::Status Maximum(const KernelCall& call) { return ForEachPair(call, Larger()); }
absl::Status Minimum(const KernelCall& call) { return ForEachPair(call, Smaller()); }

}  // namespace

void AddBinaryKernels(KernelList& list) {
  AddLoops(list, "add", Add);
  AddLoops(list, "subtract", Subtract);
  AddLoops(list, "multiply", Multiply);
  AddLoops(list, "divide", Divide);
  AddLoops(list, "maximum", Maximum);
  AddLoops(list, "minimum", Minimum);
}

}  // namespace tessera::reference
