// Computes one row of logits at a time: in its place if logits are kept, otherwise in the only
// scratch. The gradient needs none.
#include "core/ops/linear_log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"
#include "core/ops/table_rows.h"

namespace tessera::reference {
namespace {

int64_t LinearLogSumExpWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  if (KeepsLogits(request.attributes)) return 0;
  return request.inputs[LinearLogSumExpInput::kW].shape[0] * SizeOf(DType::kF64);
}

// Returns the kept logits, the last of an operator's operands; nullptr if it keeps none.
const TensorView* KeptLogits(const KernelCall& call, absl::Span<const TensorView> operands) {
  return KeepsLogits(call.request.attributes) ? &operands.back() : nullptr;
}

// Returns the strides of the rows of kept logits; zeros if there are none.
Strides RowStrides(const TensorView* logits, const TensorView& targets) {
  return logits == nullptr ? Strides(targets.shape.size(), 0) : Leading(logits->strides, 1);
}

absl::Status LinearLogSumExp(const KernelCall& call) {
  const TensorView &x = call.inputs[LinearLogSumExpInput::kX],
                   &w = call.inputs[LinearLogSumExpInput::kW],
                   &targets = call.inputs[LinearLogSumExpInput::kTargets];
  const TensorView &lse = call.outputs[LinearLogSumExpOutput::kLse],
                   &target_logit = call.outputs[LinearLogSumExpOutput::kTargetLogit];
  const int64_t vocabulary = w.shape[0], columns = w.shape[1];
  const int64_t first_row =
      TableRowsOf(call.input_regions, LinearLogSumExpInput::kW, vocabulary).first;
  const TensorView* const kept = KeptLogits(call, call.outputs);
  const Line scratch = {static_cast<double*>(call.workspace), 1};
  ForEachIndex<5>(targets.shape,
                  {Leading(x.strides, 1), targets.strides, lse.strides, target_logit.strides,
                   RowStrides(kept, targets)},
                  [&](int64_t x_offset, int64_t target_offset, int64_t lse_offset,
                      int64_t logit_offset, int64_t kept_offset) {
                    const Line logits = kept == nullptr ? scratch : LastLine(*kept, kept_offset);
                    double max = -std::numeric_limits<double>::infinity();
                    for (int64_t v = 0; v < vocabulary; ++v) {
                      logits[v] =
                          Dot(LastLine(x, x_offset), LastLine(w, v * w.strides[0]), columns);
                      max = std::max(max, logits[v]);
                    }
                    // Without a finite logit the sum is 0: -infinity - -infinity is no number.
                    const double shift = std::isinf(max) && max < 0 ? 0 : max;
                    double sum = 0;
                    for (int64_t v = 0; v < vocabulary; ++v) sum += std::exp(logits[v] - shift);
                    const int64_t target = targets.As<int32_t>()[target_offset] - first_row;
                    const bool valid = target >= 0 && target < vocabulary;
                    lse.As<double>()[lse_offset] = max + std::log(sum);
                    target_logit.As<double>()[logit_offset] = valid ? logits[target] : 0;
                  });
  return absl::OkStatus();
}

absl::Status LinearLogSumExpGrad(const KernelCall& call) {
  using Input = LinearLogSumExpGradInput;
  const TensorView &dlse = call.inputs[Input::kDlse], &dtarget = call.inputs[Input::kDtarget],
                   &x = call.inputs[Input::kX];
  const TensorView &w = call.inputs[Input::kW], &targets = call.inputs[Input::kTargets],
                   &lse = call.inputs[Input::kLse];
  const TensorView &dx = call.outputs[LinearLogSumExpGradOutput::kDx],
                   &dw = call.outputs[LinearLogSumExpGradOutput::kDw];
  const int64_t vocabulary = w.shape[0], columns = w.shape[1];
  const int64_t first_row = TableRowsOf(call.input_regions, Input::kW, vocabulary).first;
  const TensorView* const kept = KeptLogits(call, call.inputs);
  SetZero(dx);
  SetZero(dw);
  ForEachIndex<7>(
      targets.shape,
      {dlse.strides, dtarget.strides, Leading(x.strides, 1), targets.strides, lse.strides,
       Leading(dx.strides, 1), RowStrides(kept, targets)},
      [&](int64_t dlse_offset, int64_t dtarget_offset, int64_t x_offset, int64_t target_offset,
          int64_t lse_offset, int64_t dx_offset, int64_t kept_offset) {
        const double row_dlse = dlse.As<double>()[dlse_offset];
        const double row_dtarget = dtarget.As<double>()[dtarget_offset];
        if (row_dlse == 0 && row_dtarget == 0) return;  // Even if its logits are not finite.
        const Line x_row = LastLine(x, x_offset), dx_row = LastLine(dx, dx_offset);
        for (int64_t v = 0; v < vocabulary; ++v) {
          const Line w_row = LastLine(w, v * w.strides[0]);
          const Line dw_row = LastLine(dw, v * dw.strides[0]);
          const double logit =
              kept == nullptr ? Dot(x_row, w_row, columns) : LastLine(*kept, kept_offset)[v];
          double dlogit = row_dlse * std::exp(logit - lse.As<double>()[lse_offset]);
          if (v == targets.As<int32_t>()[target_offset] - first_row) dlogit += row_dtarget;
          for (int64_t c = 0; c < columns; ++c) {
            dx_row[c] += dlogit * w_row[c];
            dw_row[c] += dlogit * x_row[c];
          }
        }
      });
  return absl::OkStatus();
}

}  // namespace

void AddLinearLogSumExpKernels(KernelList& list) {
  AddLoops(list, "linear_log_sum_exp", LinearLogSumExp, LinearLogSumExpWorkspace);
  AddLoops(list, "linear_log_sum_exp_grad", LinearLogSumExpGrad);
}

}  // namespace tessera::reference
