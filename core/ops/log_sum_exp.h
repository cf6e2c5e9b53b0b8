// The positions of the operands of log_sum_exp and log_sum_exp_grad, and which classes a device's
// logits are those of.
#ifndef TESSERA_CORE_OPS_LOG_SUM_EXP_H_
#define TESSERA_CORE_OPS_LOG_SUM_EXP_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/layout/layout.h"

namespace tessera {

struct LogSumExpInput {
  enum : int { kLogits, kTargets };
};

struct LogSumExpOutput {
  enum : int { kLse, kTargetLogit };
};

struct LogSumExpGradInput {
  enum : int { kDlse, kDtarget, kLogits, kTargets, kLse };
};

struct LocalClasses {
  int64_t first = 0;   // the global index of the first class
  int64_t global = 0;  // the number of all classes
};

// Returns the classes of the logits that are input `logits` of a call and have `count` columns.
// Without regions they are all classes.
inline LocalClasses ClassesOf(absl::Span<const Region> inputs, int logits, int64_t count) {
  if (inputs.empty()) return {0, count};
  return {inputs[logits].start.back(), inputs[logits].global.back()};
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_LOG_SUM_EXP_H_
