#ifndef TESSERA_CORE_KERNELS_CPU_LINEAR_LOG_SUM_EXP_GRAD_H_
#define TESSERA_CORE_KERNELS_CPU_LINEAR_LOG_SUM_EXP_GRAD_H_

#include <memory>

#include "absl/strings/string_view.h"
#include "core/kernels/cpu/logit_chunks.h"
#include "core/kernels/interface/kernel.h"

namespace tessera::cpu {

// Returns a kernel for linear_log_sum_exp_grad. `name` must outlive it.
std::unique_ptr<Kernel> LinearLogSumExpGradKernel(absl::string_view name, Multiplier by);

}  // namespace tessera::cpu

#endif  // TESSERA_CORE_KERNELS_CPU_LINEAR_LOG_SUM_EXP_GRAD_H_
