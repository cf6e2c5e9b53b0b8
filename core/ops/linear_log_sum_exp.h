// The positions of the operands of linear_log_sum_exp and linear_log_sum_exp_grad.
#ifndef TESSERA_CORE_OPS_LINEAR_LOG_SUM_EXP_H_
#define TESSERA_CORE_OPS_LINEAR_LOG_SUM_EXP_H_

#include "core/graph/attributes.h"

namespace tessera {

// Logits are an operand if the operator keeps them.

struct LinearLogSumExpInput {
  enum : int { kX, kW, kTargets };
};

struct LinearLogSumExpOutput {
  enum : int { kLse, kTargetLogit, kLogits };
};

struct LinearLogSumExpGradInput {
  enum : int { kDlse, kDtarget, kX, kW, kTargets, kLse, kLogits };
};

struct LinearLogSumExpGradOutput {
  enum : int { kDx, kDw };
};

// Returns whether linear_log_sum_exp also outputs its logits, and linear_log_sum_exp_grad reads
// them instead of computing them again.
inline bool KeepsLogits(const Attributes& attributes) {
  return attributes.Has("keep_logits") && attributes.GetBool("keep_logits");
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_LINEAR_LOG_SUM_EXP_H_
