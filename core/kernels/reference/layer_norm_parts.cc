#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/ops/layer_norm.h"

namespace tessera::reference {
namespace {

absl::Status LayerNormSum(const KernelCall &call) {
  const TensorView &x = call.inputs[LayerNormSumInput::kX], &sums = call.outputs[0];
  ForEachIndex<2>(Leading(x.shape, 1), {Leading(x.strides, 1), sums.strides},
                  [&](int64_t i, int64_t sum_offset) {
                    const Line row = LastLine(x, i);
                    double sum = 0;
                    for (int64_t c = 0; c < x.shape.back(); ++c) sum += row[c];
                    sums.As<double>()[sum_offset] = sum;
                  });
  return absl::OkStatus();
}

absl::Status LayerNormSquares(const KernelCall &call) {
  using Input = LayerNormSquaresInput;
  const TensorView &x = call.inputs[Input::kX], &mean = call.inputs[Input::kMean];
  const TensorView &squares = call.outputs[0];
  ForEachIndex<3>(Leading(x.shape, 1), {Leading(x.strides, 1), mean.strides, squares.strides},
                  [&](int64_t i, int64_t mean_offset, int64_t sum_offset) {
                    const Line row = LastLine(x, i);
                    double sum = 0;
                    for (int64_t c = 0; c < x.shape.back(); ++c) {
                      const double distance = row[c] - mean.As<double>()[mean_offset];
                      sum += distance * distance;
                    }
                    squares.As<double>()[sum_offset] = sum;
                  });
  return absl::OkStatus();
}

absl::Status LayerNormApply(const KernelCall &call) {
  using Input = LayerNormApplyInput;
  const TensorView &x = call.inputs[Input::kX], &y = call.outputs[0];
  const TensorView &mean = call.inputs[Input::kMean], &rstd = call.inputs[Input::kRstd];
  const Line weight = LastLine(call.inputs[Input::kWeight], 0),
             bias = LastLine(call.inputs[Input::kBias], 0);
  ForEachIndex<4>(Leading(x.shape, 1),
                  {Leading(x.strides, 1), Leading(y.strides, 1), mean.strides, rstd.strides},
                  [&](int64_t i, int64_t j, int64_t mean_offset, int64_t rstd_offset) {
                    const Line x_row = LastLine(x, i), y_row = LastLine(y, j);
                    for (int64_t c = 0; c < x.shape.back(); ++c) {
                      const double n = (x_row[c] - mean.As<double>()[mean_offset]) *
                                       rstd.As<double>()[rstd_offset];
                      y_row[c] = n * weight[c] + bias[c];
                    }
                  });
  return absl::OkStatus();
}

absl::Status LayerNormGradSums(const KernelCall &call) {
  using Input = LayerNormGradSumsInput;
  using Output = LayerNormGradSumsOutput;
  const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX];
  const TensorView &mean = call.inputs[Input::kMean], &rstd = call.inputs[Input::kRstd];
  const TensorView &change = call.outputs[Output::kChange],
                   &normal_change = call.outputs[Output::kNormalChange];
  const Line weight = LastLine(call.inputs[Input::kWeight], 0);
  ForEachIndex<6>(Leading(x.shape, 1),
                  {Leading(dy.strides, 1), Leading(x.strides, 1), mean.strides, rstd.strides,
                   change.strides, normal_change.strides},
                  [&](int64_t i, int64_t j, int64_t mean_offset, int64_t rstd_offset,
                      int64_t change_offset, int64_t normal_change_offset) {
                    const Line dy_row = LastLine(dy, i), x_row = LastLine(x, j);
                    double sum_dn = 0, sum_dn_n = 0;
                    for (int64_t c = 0; c < x.shape.back(); ++c) {
                      const double n = (x_row[c] - mean.As<double>()[mean_offset]) *
                                       rstd.As<double>()[rstd_offset];
                      sum_dn += dy_row[c] * weight[c];
                      sum_dn_n += dy_row[c] * weight[c] * n;
                    }
                    change.As<double>()[change_offset] = sum_dn;
                    normal_change.As<double>()[normal_change_offset] = sum_dn_n;
                  });
  return absl::OkStatus();
}

absl::Status LayerNormGradApply(const KernelCall &call) {
  using Input = LayerNormGradApplyInput;
  using Output = LayerNormGradApplyOutput;
  const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX];
  const TensorView &mean = call.inputs[Input::kMean], &rstd = call.inputs[Input::kRstd];
  const TensorView &change = call.inputs[Input::kChange],
                   &normal_change = call.inputs[Input::kNormalChange];
  const TensorView &dx = call.outputs[Output::kDx];
  const Line weight = LastLine(call.inputs[Input::kWeight], 0);
  const Line dweight = LastLine(call.outputs[Output::kDweight], 0),
             dbias = LastLine(call.outputs[Output::kDbias], 0);
  SetZero(call.outputs[Output::kDweight]);
  SetZero(call.outputs[Output::kDbias]);
  ForEachIndex<7>(Leading(x.shape, 1),
                  {Leading(dy.strides, 1), Leading(x.strides, 1), Leading(dx.strides, 1),
                   mean.strides, rstd.strides, change.strides, normal_change.strides},
                  [&](int64_t i, int64_t j, int64_t k, int64_t mean_offset, int64_t rstd_offset,
                      int64_t change_offset, int64_t normal_change_offset) {
                    const Line dy_row = LastLine(dy, i), x_row = LastLine(x, j),
                               dx_row = LastLine(dx, k);
                    const double scale = rstd.As<double>()[rstd_offset];
                    for (int64_t c = 0; c < x.shape.back(); ++c) {
                      const double n = (x_row[c] - mean.As<double>()[mean_offset]) * scale;
                      const double dn = dy_row[c] * weight[c];
                      // Before dx is written, which may be at the address of dy.
                      dweight[c] += dy_row[c] * n;
                      dbias[c] += dy_row[c];
                      dx_row[c] = scale * (dn - change.As<double>()[change_offset] -
                                           n * normal_change.As<double>()[normal_change_offset]);
                    }
                  });
  return absl::OkStatus();
}

}  // namespace

void AddLayerNormPartsKernels(KernelList &list) {
  AddLoops(list, "layer_norm_sum", LayerNormSum);
  AddLoops(list, "layer_norm_squares", LayerNormSquares);
  AddLoops(list, "layer_norm_apply", LayerNormApply);
  AddLoops(list, "layer_norm_grad_sums", LayerNormGradSums);
  AddLoops(list, "layer_norm_grad_apply", LayerNormGradApply);
}

}  // namespace tessera::reference
