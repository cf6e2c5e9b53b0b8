// top_k_correct. Plain loops are enough: it runs in evaluations only.
#include "core/ops/top_k_correct.h"

#include <cstdint>

#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

// Returns whether fewer than `k` logits of a row are before the target's in descending order. A NaN
// is before every number.
template <typename T>
bool IsAmongLargest(const T* row, int64_t columns, int64_t target, int64_t k) {
  if (target < 0 || target >= columns) return false;
  const auto logit = static_cast<float>(row[target]);
  int64_t before = 0;
  for (int64_t v = 0; v < target; ++v) before += static_cast<float>(row[v]) < logit ? 0 : 1;
  for (int64_t v = target + 1; v < columns; ++v) {
    before += static_cast<float>(row[v]) <= logit ? 0 : 1;
  }
  return before < k;
}

absl::Status TopKCorrect(const KernelCall& call) {
  const TensorView &logits = call.inputs[TopKCorrectInput::kLogits],
                   &targets = call.inputs[TopKCorrectInput::kTargets];
  float* const correct = call.outputs[0].As<float>();
  const int64_t columns = logits.shape.back(), k = call.request.attributes.GetInt("k");
  ParallelFor(call.request.threads, targets.elements(), 16384 / columns + 1,
              [&](int64_t begin, int64_t end) {
                WithFloatType(logits.dtype, [&](auto type) {
                  using T = decltype(type);
                  for (int64_t r = begin; r < end; ++r) {
                    const bool is_correct = IsAmongLargest(logits.As<T>() + r * columns, columns,
                                                           targets.As<int32_t>()[r], k);
                    correct[r] = is_correct ? 1.0f : 0.0f;
                  }
                });
              });
  return absl::OkStatus();
}

}  // namespace

void AddTopKCorrectKernels(KernelList& list) {
  list.Add("top_k_correct", "loops", TopKCorrect, kRowMajor);
}

}  // namespace tessera::cpu
