#include <cmath>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {

absl::Status LayerNorm(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const TensorView &y = call.outputs[0], &mean_out = call.outputs[1], &rstd_out = call.outputs[2];
  const Line weight = LastLine(call.inputs[1], 0), bias = LastLine(call.inputs[2], 0);
  const double eps = call.request.attributes.GetDouble("eps");
  const int64_t columns = x.shape.back();
  ForEachIndex<4>(
      Leading(x.shape, 1),
      {Leading(x.strides, 1), Leading(y.strides, 1), mean_out.strides, rstd_out.strides},
      [&](int64_t i, int64_t j, int64_t mean_at, int64_t rstd_at) {
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
        mean_out.As<double>()[mean_at] = mean;
        rstd_out.As<double>()[rstd_at] = rstd;
      });
  return absl::OkStatus();
}

absl::Status LayerNormGrad(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &x = call.inputs[1];
  const TensorView &mean_in = call.inputs[3], &rstd_in = call.inputs[4];
  const TensorView& dx = call.outputs[0];
  const Line weight = LastLine(call.inputs[2], 0);
  const Line dweight = LastLine(call.outputs[1], 0), dbias = LastLine(call.outputs[2], 0);
  const int64_t columns = x.shape.back();
  SetZero(call.outputs[1]);
  SetZero(call.outputs[2]);
  ForEachIndex<5>(
      Leading(x.shape, 1),
      {Leading(dy.strides, 1), Leading(x.strides, 1), Leading(dx.strides, 1), mean_in.strides,
       rstd_in.strides},
      [&](int64_t i, int64_t j, int64_t k, int64_t mean_at, int64_t rstd_at) {
        const Line dy_row = LastLine(dy, i), x_row = LastLine(x, j), dx_row = LastLine(dx, k);
        const double mean = mean_in.As<double>()[mean_at];
        const double rstd = rstd_in.As<double>()[rstd_at];
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

}  // namespace tessera::reference
