#include "core/ops/layer_norm.h"

#include <cmath>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status LayerNorm(const KernelCall& call) {
  const TensorView& x = call.inputs[LayerNormInput::kX];
  const TensorView &y = call.outputs[LayerNormOutput::kY],
                   &mean_out = call.outputs[LayerNormOutput::kMean],
                   &rstd_out = call.outputs[LayerNormOutput::kRstd];
  const Line weight = LastLine(call.inputs[LayerNormInput::kWeight], 0),
             bias = LastLine(call.inputs[LayerNormInput::kBias], 0);
  const double eps = call.request.attributes.GetDouble("eps");
  const int64_t columns = x.shape.back();
  ForEachIndex<4>(
      Leading(x.shape, 1),
      {Leading(x.strides, 1), Leading(y.strides, 1), mean_out.strides, rstd_out.strides},
      [&](int64_t i, int64_t j, int64_t mean_offset, int64_t rstd_offset) {
        const Line x_row = LastLine(x, i), y_row = LastLine(y, j);
        double sum = 0;
        for (int64_t c = 0; c < columns; ++c) sum += x_row[c];
        const double mean = sum / columns;
        double squares = 0;
        for (int64_t c = 0; c < columns; ++c) {
          squares += (x_row[c] - mean) * (x_row[c] - mean);
        }
        const double rstd = 1 / std::sqrt(squares / columns + eps);
        for (int64_t c = 0; c < columns; ++c) {
          y_row[c] = (x_row[c] - mean) * rstd * weight[c] + bias[c];
        }
        mean_out.As<double>()[mean_offset] = mean;
        rstd_out.As<double>()[rstd_offset] = rstd;
      });
  return absl::OkStatus();
}

absl::Status LayerNormGrad(const KernelCall& call) {
  using Input = LayerNormGradInput;
  using Output = LayerNormGradOutput;
  const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX];
  const TensorView &mean_in = call.inputs[Input::kMean], &rstd_in = call.inputs[Input::kRstd];
  const TensorView& dx = call.outputs[Output::kDx];
  const Line weight = LastLine(call.inputs[Input::kWeight], 0);
  const Line dweight = LastLine(call.outputs[Output::kDweight], 0),
             dbias = LastLine(call.outputs[Output::kDbias], 0);
  const int64_t columns = x.shape.back();
  SetZero(call.outputs[Output::kDweight]);
  SetZero(call.outputs[Output::kDbias]);
  ForEachIndex<5>(
      Leading(x.shape, 1),
      {Leading(dy.strides, 1), Leading(x.strides, 1), Leading(dx.strides, 1), mean_in.strides,
       rstd_in.strides},
      [&](int64_t i, int64_t j, int64_t k, int64_t mean_offset, int64_t rstd_offset) {
        const Line dy_row = LastLine(dy, i), x_row = LastLine(x, j), dx_row = LastLine(dx, k);
        const double mean = mean_in.As<double>()[mean_offset];
        const double rstd = rstd_in.As<double>()[rstd_offset];
        // With n = (x - mean) * rstd and dn = dy * weight:
        // dx = rstd * (dn - average of dn - n * average of dn * n).
        double sum_dn = 0, sum_dn_n = 0;
        for (int64_t c = 0; c < columns; ++c) {
          const double n = (x_row[c] - mean) * rstd;
          sum_dn += dy_row[c] * weight[c];
          sum_dn_n += dy_row[c] * weight[c] * n;
          dweight[c] += dy_row[c] * n;
          dbias[c] += dy_row[c];
        }
        for (int64_t c = 0; c < columns; ++c) {
          const double n = (x_row[c] - mean) * rstd;
          dx_row[c] = rstd * (dy_row[c] * weight[c] - sum_dn / columns - n * sum_dn_n / columns);
        }
      });
  return absl::OkStatus();
}

}  // namespace

void AddLayerNormKernels(KernelList& list) {
  AddLoops(list, "layer_norm", LayerNorm);
  AddLoops(list, "layer_norm_grad", LayerNormGrad);
}

}  // namespace tessera::reference
