// The operators of layer norm on parts of rows: sums over the last dimension, and what follows from
// the completed sums. A row of no elements has sums of 0.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/layer_norm_parts.cc"
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

float SumRow(DType dtype, const void* x, int64_t count) {
  return WithFloatType(dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    return static_cast<float>(SumOfElements(static_cast<const T*>(x), count));
  });
}

float SquaresRow(DType dtype, const void* x, float mean, int64_t count) {
  return WithFloatType(dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    return static_cast<float>(SumOfSquares(static_cast<const T*>(x), mean, count));
  });
}

void ApplyRow(DType dtype, const void* x, float mean, float rstd, const void* weight,
              const void* bias, int64_t count, void* y) {
  WithFloatType(dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    Normalize(static_cast<const T*>(x), mean, rstd, static_cast<const T*>(weight),
              static_cast<const T*>(bias), count, static_cast<T*>(y));
  });
}

void GradSumsRow(DType dtype, const void* dy, const void* x, const void* weight, float mean,
                 float rstd, int64_t count, float* change, float* normal_change) {
  WithFloatType(dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    double sums[2];
    SumChanges(static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(weight),
               mean, rstd, count, sums, AddNowhere());
    *change = static_cast<float>(sums[0]);
    *normal_change = static_cast<float>(sums[1]);
  });
}

void GradApplyRow(DType dtype, const void* dy, const void* x, const void* weight,
                  const RowGradient& row, int64_t count, void* dx, float* dweight, float* dbias) {
  WithFloatType(dtype, [&](auto type) HWY_ATTR {
    using T = decltype(type);
    // In a loop of its own: one loop that writes all three arrays takes longer.
    AddGradient(static_cast<const T*>(dy), static_cast<const T*>(x), row.mean, row.rstd, count,
                AddToWeights{dweight, dbias});
    ApplyChanges(static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(weight),
                 row, count, static_cast<T*>(dx));
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SumRow);
HWY_EXPORT(SquaresRow);
HWY_EXPORT(ApplyRow);
HWY_EXPORT(GradSumsRow);
HWY_EXPORT(GradApplyRow);

// Calls body(row) for each row of a tensor of this shape.
template <typename Body>
absl::Status ForEachRow(const KernelCall& call, const Shape& shape, const Body& body) {
  const NormRows rows(shape);
  ParallelFor(call.request.threads, rows.rows, rows.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
  return absl::OkStatus();
}

absl::Status LayerNormSum(const KernelCall& call) {
  const TensorView& x = call.inputs[LayerNormSumInput::kX];
  float* const sums = call.outputs[0].As<float>();
  return ForEachRow(call, x.shape, [&](int64_t row) {
    sums[row] = HWY_DYNAMIC_DISPATCH(SumRow)(x.dtype, RowOf(x, row), x.shape.back());
  });
}

absl::Status LayerNormSquares(const KernelCall& call) {
  using Input = LayerNormSquaresInput;
  const TensorView& x = call.inputs[Input::kX];
  const float* const mean = call.inputs[Input::kMean].As<float>();
  float* const squares = call.outputs[0].As<float>();
  return ForEachRow(call, x.shape, [&](int64_t row) {
    squares[row] =
        HWY_DYNAMIC_DISPATCH(SquaresRow)(x.dtype, RowOf(x, row), mean[row], x.shape.back());
  });
}

absl::Status LayerNormApply(const KernelCall& call) {
  using Input = LayerNormApplyInput;
  const TensorView &x = call.inputs[Input::kX], &y = call.outputs[0];
  const float* const mean = call.inputs[Input::kMean].As<float>();
  const float* const rstd = call.inputs[Input::kRstd].As<float>();
  return ForEachRow(call, x.shape, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(ApplyRow)
    (x.dtype, RowOf(x, row), mean[row], rstd[row], call.inputs[Input::kWeight].data,
     call.inputs[Input::kBias].data, x.shape.back(), RowOf(y, row));
  });
}

absl::Status LayerNormGradSums(const KernelCall& call) {
  using Input = LayerNormGradSumsInput;
  using Output = LayerNormGradSumsOutput;
  const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX];
  const float* const mean = call.inputs[Input::kMean].As<float>();
  const float* const rstd = call.inputs[Input::kRstd].As<float>();
  return ForEachRow(call, x.shape, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(GradSumsRow)
    (x.dtype, RowOf(dy, row), RowOf(x, row), call.inputs[Input::kWeight].data, mean[row], rstd[row],
     x.shape.back(), call.outputs[Output::kChange].As<float>() + row,
     call.outputs[Output::kNormalChange].As<float>() + row);
  });
}

void AddGradApplyRow(const KernelCall& call, int64_t row, float* dweight, float* dbias) {
  using Input = LayerNormGradApplyInput;
  const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX];
  const auto of_row = [&](int input) { return call.inputs[input].As<float>()[row]; };
  const RowGradient gradient = {of_row(Input::kMean), of_row(Input::kRstd), of_row(Input::kChange),
                                of_row(Input::kNormalChange)};
  HWY_DYNAMIC_DISPATCH(GradApplyRow)
  (x.dtype, RowOf(dy, row), RowOf(x, row), call.inputs[Input::kWeight].data, gradient,
   x.shape.back(), RowOf(call.outputs[LayerNormGradApplyOutput::kDx], row), dweight, dbias);
}

absl::Status LayerNormGradApply(const KernelCall& call) {
  GradientOfRows(call, NormRows(call.inputs[LayerNormGradApplyInput::kDy].shape), AddGradApplyRow);
  return absl::OkStatus();
}

int64_t GradApplyWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return GradientOfRowsWorkspace(NormRows(request.inputs[LayerNormGradApplyInput::kDy].shape));
}

}  // namespace

void AddLayerNormPartsKernels(KernelList& list) {
  list.Add("layer_norm_sum", "highway", LayerNormSum, kRowMajor);
  list.Add("layer_norm_squares", "highway", LayerNormSquares, kRowMajor);
  list.Add("layer_norm_apply", "highway", LayerNormApply, kRowMajor);
  list.Add("layer_norm_grad_sums", "highway", LayerNormGradSums, kRowMajor);
  Traits grad_apply = WithWorkspace(GradApplyWorkspace);
  grad_apply.f32_outputs =
      1 << LayerNormGradApplyOutput::kDweight | 1 << LayerNormGradApplyOutput::kDbias;
  list.Add("layer_norm_grad_apply", "highway", LayerNormGradApply, grad_apply);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
