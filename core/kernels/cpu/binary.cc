// add, subtract, multiply, divide, maximum, minimum: with numpy's broadcasting.
#include <cstdint>
#include <type_traits>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/binary.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/elementwise.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Integers wrap around: they are computed as unsigned numbers.
struct AddOp {
  HWY_INLINE Floats operator()(Floats a, Floats b) const { return hn::Add(a, b); }
  template <typename T>
  T operator()(T a, T b) const {
    return a + b;
  }
};
struct SubtractOp {
  HWY_INLINE Floats operator()(Floats a, Floats b) const { return hn::Sub(a, b); }
  template <typename T>
  T operator()(T a, T b) const {
    return a - b;
  }
};
struct MultiplyOp {
  HWY_INLINE Floats operator()(Floats a, Floats b) const { return hn::Mul(a, b); }
  template <typename T>
  T operator()(T a, T b) const {
    return a * b;
  }
};
struct DivideOp {
  HWY_INLINE Floats operator()(Floats a, Floats b) const { return hn::Div(a, b); }
  // Truncates toward zero. Cases that would trap are defined: x / 0 is 0, and x / -1 wraps around.
  template <typename T>
  T operator()(T a, T b) const {
    using Signed = std::make_signed_t<T>;
    if (b == 0) return 0;
    if (b == static_cast<T>(-1)) return T{0} - a;
    return static_cast<T>(static_cast<Signed>(a) / static_cast<Signed>(b));
  }
};
struct MaximumOp {
  // Returns NaN if either operand is NaN.
  HWY_INLINE Floats operator()(Floats a, Floats b) const {
    return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
  }
  template <typename T>
  T operator()(T a, T b) const {
    using Signed = std::make_signed_t<T>;
    return static_cast<Signed>(a) > static_cast<Signed>(b) ? a : b;
  }
};

struct MinimumOp {
  HWY_INLINE Floats operator()(Floats a, Floats b) const {
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
  }
  template <typename T>
  T operator()(T a, T b) const {
    using Signed = std::make_signed_t<T>;
    return static_cast<Signed>(a) < static_cast<Signed>(b) ? a : b;
  }
};

template <typename Op>
void RunFloats(const float* a, const float* b, float* y, int64_t count) {
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    access.Store(Op()(access.Load(a + i), access.Load(b + i)), y + i);
  });
}

template <typename Op, typename T>
void RunInts(const void* a, const void* b, void* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<T*>(y)[i] = Op()(static_cast<const T*>(a)[i], static_cast<const T*>(b)[i]);
  }
}

template <typename Op>
void RunAny(DType dtype, const void* a, const void* b, void* y, int64_t count) {
  if (dtype == DType::kF32) {
    return RunFloats<Op>(static_cast<const float*>(a), static_cast<const float*>(b),
                         static_cast<float*>(y), count);
  }
  if (dtype == DType::kI32) return RunInts<Op, uint32_t>(a, b, y, count);
  return RunInts<Op, uint64_t>(a, b, y, count);
}

void AddRun(DType dtype, const void* a, const void* b, void* y, int64_t count) {
  RunAny<AddOp>(dtype, a, b, y, count);
}
void SubtractRun(DType dtype, const void* a, const void* b, void* y, int64_t count) {
  RunAny<SubtractOp>(dtype, a, b, y, count);
}
void MultiplyRun(DType dtype, const void* a, const void* b, void* y, int64_t count) {
  RunAny<MultiplyOp>(dtype, a, b, y, count);
}
void DivideRun(DType dtype, const void* a, const void* b, void* y, int64_t count) {
  RunAny<DivideOp>(dtype, a, b, y, count);
}
void MaximumRun(DType dtype, const void* a, const void* b, void* y, int64_t count) {
  RunAny<MaximumOp>(dtype, a, b, y, count);
}
void MinimumRun(DType dtype, const void* a, const void* b, void* y, int64_t count) {
  RunAny<MinimumOp>(dtype, a, b, y, count);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(AddRun);
HWY_EXPORT(SubtractRun);
HWY_EXPORT(MultiplyRun);
HWY_EXPORT(DivideRun);
HWY_EXPORT(MaximumRun);
HWY_EXPORT(MinimumRun);

using BinaryRun = void (*)(DType dtype, const void* a, const void* b, void* y, int64_t count);

absl::Status Run(const KernelCall& call, BinaryRun run) {
  struct Context {
    BinaryRun run;
    DType dtype;
  } context{run, IsHalf(call.outputs[0].dtype) ? DType::kF32 : call.outputs[0].dtype};
  RunElementwiseInF32(
      call.request.threads, call.inputs, call.outputs[0], &context,
      [](const void* opaque, const void* const* inputs, void* output, int64_t count) {
        const Context& c = *static_cast<const Context*>(opaque);
        c.run(c.dtype, inputs[0], inputs[1], output, count);
      });
  return absl::OkStatus();
}

absl::Status Add(const KernelCall& call) { return Run(call, HWY_DYNAMIC_DISPATCH(AddRun)); }
absl::Status Subtract(const KernelCall& call) {
  return Run(call, HWY_DYNAMIC_DISPATCH(SubtractRun));
}
absl::Status Multiply(const KernelCall& call) {
  return Run(call, HWY_DYNAMIC_DISPATCH(MultiplyRun));
}
absl::Status Divide(const KernelCall& call) { return Run(call, HWY_DYNAMIC_DISPATCH(DivideRun)); }
absl::Status Maximum(const KernelCall& call) { return Run(call, HWY_DYNAMIC_DISPATCH(MaximumRun)); }
absl::Status Minimum(const KernelCall& call) { return Run(call, HWY_DYNAMIC_DISPATCH(MinimumRun)); }

}  // namespace

void AddBinaryKernels(KernelList& list) {
  Traits sum = kArithmetic;
  sum.f32_outputs = 1;  // a gradient with several contributions
  list.Add("add", "highway", Add, sum);
  list.Add("subtract", "highway", Subtract, kArithmetic);
  list.Add("multiply", "highway", Multiply, kArithmetic);
  list.Add("divide", "highway", Divide, kArithmetic);
  list.Add("maximum", "highway", Maximum, kArithmetic);
  list.Add("minimum", "highway", Minimum, kArithmetic);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
