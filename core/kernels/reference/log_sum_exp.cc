#include "core/ops/log_sum_exp.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

absl::Status LogSumExp(const KernelCall& call) {
  const TensorView &logits = call.inputs[LogSumExpInput::kLogits],
                   &targets = call.inputs[LogSumExpInput::kTargets];
  const TensorView &lse = call.outputs[LogSumExpOutput::kLse],
                   &target_logit = call.outputs[LogSumExpOutput::kTargetLogit];
  const int64_t columns = logits.shape.back();
  const LocalClasses classes = ClassesOf(call.input_regions, LogSumExpInput::kLogits, columns);
  const double smoothing = call.request.attributes.GetDouble("label_smoothing");
  ForEachIndex<4>(
      targets.shape,
      {Leading(logits.strides, 1), targets.strides, lse.strides, target_logit.strides},
      [&](int64_t row_offset, int64_t target_offset, int64_t lse_offset, int64_t logit_offset) {
        const Line row = LastLine(logits, row_offset);
        double max = -std::numeric_limits<double>::infinity(), all = 0;
        for (int64_t v = 0; v < columns; ++v) max = std::max(max, row[v]);
        for (int64_t v = 0; v < columns; ++v) all += row[v];
        // Without a finite logit the sum is 0: -infinity - -infinity is no number.
        const double shift = std::isinf(max) && max < 0 ? 0 : max;
        double sum = 0;
        for (int64_t v = 0; v < columns; ++v) sum += std::exp(row[v] - shift);
        const int64_t target = targets.As<int32_t>()[target_offset] - classes.first;
        const bool is_here = target >= 0 && target < columns;
        double& result = target_logit.As<double>()[logit_offset];
        lse.As<double>()[lse_offset] = max + std::log(sum);
        result = is_here ? (1 - smoothing) * row[target] : 0;
        if (smoothing > 0) result += smoothing * all / static_cast<double>(classes.global);
      });
  return absl::OkStatus();
}

absl::Status LogSumExpGrad(const KernelCall& call) {
  using Input = LogSumExpGradInput;
  const TensorView &dlse = call.inputs[Input::kDlse], &dtarget = call.inputs[Input::kDtarget],
                   &logits = call.inputs[Input::kLogits], &targets = call.inputs[Input::kTargets],
                   &lse = call.inputs[Input::kLse], &dlogits = call.outputs[0];
  const int64_t columns = logits.shape.back();
  const LocalClasses classes = ClassesOf(call.input_regions, Input::kLogits, columns);
  const double smoothing = call.request.attributes.GetDouble("label_smoothing");
  ForEachIndex<6>(targets.shape,
                  {dlse.strides, dtarget.strides, Leading(logits.strides, 1), targets.strides,
                   lse.strides, Leading(dlogits.strides, 1)},
                  [&](int64_t dlse_offset, int64_t dtarget_offset, int64_t row_offset,
                      int64_t target_offset, int64_t lse_offset, int64_t dlogits_offset) {
                    const double of_lse = dlse.As<double>()[dlse_offset];
                    const double of_target = dtarget.As<double>()[dtarget_offset];
                    const int64_t target = targets.As<int32_t>()[target_offset] - classes.first;
                    const double log_sum = lse.As<double>()[lse_offset];
                    const Line row = LastLine(logits, row_offset);
                    const Line result = LastLine(dlogits, dlogits_offset);
                    const bool has_weight = of_lse != 0 || of_target != 0;
                    for (int64_t v = 0; v < columns; ++v) {
                      const double share = (v == target ? 1 - smoothing : 0) +
                                           smoothing / static_cast<double>(classes.global);
                      result[v] =
                          has_weight ? of_lse * std::exp(row[v] - log_sum) + of_target * share : 0;
                    }
                  });
  return absl::OkStatus();
}

}  // namespace

void AddLogSumExpKernels(KernelList& list) {
  AddLoops(list, "log_sum_exp", LogSumExp);
  AddLoops(list, "log_sum_exp_grad", LogSumExpGrad);
}

}  // namespace tessera::reference
