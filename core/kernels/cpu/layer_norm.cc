// layer_norm and its gradient, over the last dimension. Mean and variance take two passes over a
// row, which stays in the L1 cache, and so does a gradient.
#include <cmath>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/layer_norm.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/layer_norm-inl.h"
#include "core/kernels/cpu/layer_norm_rows.h"
#include "core/kernels/cpu/parallel.h"
#include "core/ops/layer_norm.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Computes y, the mean and 1 / sqrt(variance + eps) of a row of `count` elements.
template <typename T>
void NormalizeRow(const T* x, const T* weight, const T* bias, double eps, int64_t count, T* y,
                  float* mean, float* rstd) {
  *mean = static_cast<float>(SumOfElements(x, count) / static_cast<double>(count));
  const double variance = SumOfSquares(x, *mean, count) / static_cast<double>(count);
  *rstd = static_cast<float>(1 / std::sqrt(variance + eps));
  Normalize(x, *mean, *rstd, weight, bias, count, y);
}

// Computes dx of a row, and adds what the row contributes to the gradients of weight and bias to
// `dweight` and `dbias`.
template <typename T>
void GradientOfRow(const T* dy, const T* x, const T* weight, float mean, float rstd, int64_t count,
                   T* dx, float* dweight, float* dbias) {
  double sums[2];
  SumChanges(dy, x, weight, mean, rstd, count, sums, AddToWeights{dweight, dbias});
  const auto mean_of = [&](double sum) {
    return static_cast<float>(sum / static_cast<double>(count));
  };
  ApplyChanges(dy, x, weight, {mean, rstd, mean_of(sums[0]), mean_of(sums[1])}, count, dx);
}

void LayerNormRow(DType dtype, const void* x, const void* weight, const void* bias, double eps,
                  int64_t count, void* y, float* mean, float* rstd) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    NormalizeRow(static_cast<const T*>(x), static_cast<const T*>(weight),
                 static_cast<const T*>(bias), eps, count, static_cast<T*>(y), mean, rstd);
  });
}

void LayerNormGradRow(DType dtype, const void* dy, const void* x, const void* weight, float mean,
                      float rstd, int64_t count, void* dx, float* dweight, float* dbias) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    GradientOfRow(static_cast<const T*>(dy), static_cast<const T*>(x),
                  static_cast<const T*>(weight), mean, rstd, count, static_cast<T*>(dx), dweight,
                  dbias);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(LayerNormRow);
HWY_EXPORT(LayerNormGradRow);

absl::Status LayerNorm(const KernelCall& call) {
  using Input = LayerNormInput;
  using Output = LayerNormOutput;
  const TensorView &x = call.inputs[Input::kX], &y = call.outputs[Output::kY];
  const NormRows shape(x.shape);
  const double eps = call.request.attributes.GetDouble("eps");
  if (shape.columns == 0) return absl::OkStatus();
  ParallelFor(call.request.threads, shape.rows, shape.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(LayerNormRow)
      (x.dtype, RowOf(x, r), call.inputs[Input::kWeight].data, call.inputs[Input::kBias].data, eps,
       shape.columns, RowOf(y, r), call.outputs[Output::kMean].As<float>() + r,
       call.outputs[Output::kRstd].As<float>() + r);
    }
  });
  return absl::OkStatus();
}

int64_t LayerNormGradWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return GradientOfRowsWorkspace(NormRows(request.inputs[LayerNormGradInput::kDy].shape));
}

void AddLayerNormGradRow(const KernelCall& call, int64_t row, float* dweight, float* dbias) {
  using Input = LayerNormGradInput;
  const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX];
  HWY_DYNAMIC_DISPATCH(LayerNormGradRow)
  (x.dtype, RowOf(dy, row), RowOf(x, row), call.inputs[Input::kWeight].data,
   call.inputs[Input::kMean].As<float>()[row], call.inputs[Input::kRstd].As<float>()[row],
   x.shape.back(), RowOf(call.outputs[LayerNormGradOutput::kDx], row), dweight, dbias);
}

absl::Status LayerNormGrad(const KernelCall& call) {
  GradientOfRows(call, NormRows(call.inputs[LayerNormGradInput::kDy].shape), AddLayerNormGradRow);
  return absl::OkStatus();
}

}  // namespace

void AddLayerNormKernels(KernelList& list) {
  list.Add("layer_norm", "highway", LayerNorm, kRowMajor);
  Traits grad = WithWorkspace(LayerNormGradWorkspace);
  grad.f32_outputs = 1 << LayerNormGradOutput::kDweight | 1 << LayerNormGradOutput::kDbias;
  list.Add("layer_norm_grad", "highway", LayerNormGrad, grad);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
