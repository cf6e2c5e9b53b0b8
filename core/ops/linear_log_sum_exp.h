// The positions of the operands of linear_log_sum_exp and linear_log_sum_exp_grad.
#ifndef TESSERA_CORE_OPS_LINEAR_LOG_SUM_EXP_H_
#define TESSERA_CORE_OPS_LINEAR_LOG_SUM_EXP_H_

namespace tessera {

struct LinearLogSumExpInput {
  enum : int { kX, kW, kTargets };
};

struct LinearLogSumExpOutput {
  enum : int { kLse, kTargetLogit };
};

struct LinearLogSumExpGradInput {
  enum : int { kDlse, kDtarget, kX, kW, kTargets, kLse };
};

struct LinearLogSumExpGradOutput {
  enum : int { kDx, kDw };
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_LINEAR_LOG_SUM_EXP_H_
