#include "core/ops/top_k_correct.h"

#include "core/kernels/reference/kernel_list.h"
#include "core/kernels/reference/strided.h"

namespace tessera::reference {
namespace {

// Counts the logits that are before the target's in descending order. A NaN is before every number.
absl::Status TopKCorrect(const KernelCall& call) {
  const TensorView &logits = call.inputs[TopKCorrectInput::kLogits],
                   &targets = call.inputs[TopKCorrectInput::kTargets], &y = call.outputs[0];
  const int64_t columns = logits.shape.back(), k = call.request.attributes.GetInt("k");
  ForEachIndex<3>(targets.shape, {Leading(logits.strides, 1), targets.strides, y.strides},
                  [&](int64_t row_offset, int64_t target_offset, int64_t y_offset) {
                    const Line row = LastLine(logits, row_offset);
                    const int64_t target = targets.As<int32_t>()[target_offset];
                    double& correct = y.As<double>()[y_offset];
                    correct = 0;
                    if (target < 0 || target >= columns) return;
                    int64_t before = 0;
                    for (int64_t v = 0; v < target; ++v) before += row[v] < row[target] ? 0 : 1;
                    for (int64_t v = target + 1; v < columns; ++v) {
                      before += row[v] <= row[target] ? 0 : 1;
                    }
                    correct = before < k ? 1 : 0;
                  });
  return absl::OkStatus();
}

}  // namespace

void AddTopKCorrectKernels(KernelList& list) { AddLoops(list, "top_k_correct", TopKCorrect); }

}  // namespace tessera::reference
