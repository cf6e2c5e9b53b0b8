#include "core/cost/kept_logits.h"

#include "core/ops/linear_log_sum_exp.h"
#include "core/plan/rewrite/keep_logits.h"
#include "core/tensor/shape.h"

namespace tessera {

bool KeepingLogitsPays(const Graph& graph, const MachineRates& rates) {
  if (!HasLogitsToKeep(graph)) return false;
  constexpr double kBytesOfLogit = 2 * sizeof(float);  // written and read
  for (const Op& op : graph.ops()) {
    if (op.kind->name() != "linear_log_sum_exp_grad") continue;
    const Shape& x = graph.value(op.inputs[LinearLogSumExpGradInput::kX]).type.shape;
    const double flops_of_logit = 2 * static_cast<double>(x.back());
    if (flops_of_logit / rates.flops_per_second > kBytesOfLogit / rates.bytes_per_second) {
      return true;
    }
  }
  return false;
}

}  // namespace tessera
