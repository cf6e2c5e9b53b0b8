// How far the results of two trainings are apart.
//
// Thread safety: pure functions.
#ifndef TESSERA_STRATEGIES_CONFORMANCE_COMPARE_TRAINING_H_
#define TESSERA_STRATEGIES_CONFORMANCE_COMPARE_TRAINING_H_

#include <limits>
#include <string>

#include "strategies/conformance/rank_training.h"

namespace tessera {

// The largest difference of two results, relative to the norm of its tensor, and the place of it.
struct Difference {
  double relative = 0;
  std::string where;
  // The tensor of the second result is this factor times that of the first; 0 if it is not a
  // multiple.
  double factor = 0;
};
// Returns the largest difference. Stops after the first step with a difference above `enough`.
Difference Compare(const TrainingResult& a, const TrainingResult& b,
                   double enough = std::numeric_limits<double>::infinity());

// The same for a run that lowers the precision. Compares all outputs of the first step, only the
// loss of later steps, and all states after the last step. (In later steps the parameters already
// differ, which dominates the gradients of small tensors.)
Difference CompareLowered(const TrainingResult& a, const TrainingResult& b);

// The same for all parameters after the last step as one vector. Leaves out the key part of
// attention's bias: its true gradient is 0, and AdamW turns the rounding errors into updates of
// full size. If the run lowers the precision, evaluation and generation are left out too: rounding
// of small gradients has the same effect on single parameters, on which single logits depend.
Difference CompareParameters(const TrainingResult& a, const TrainingResult& b, bool lowers);

// Compares as suits the run: parameters only after AdamW; as CompareLowered if it lowers the
// precision; else everything.
Difference CompareTraining(const TrainingRun& run, bool lowers, const TrainingResult& a,
                           const TrainingResult& b,
                           double enough = std::numeric_limits<double>::infinity());

// The differences that are allowed between kernels in f32 that add in another order, and in 16
// bits. A wrong factor differs by more.
inline constexpr double kCpuTolerance = 1e-5;
inline constexpr double kLoweredTolerance = 5e-2;

// The same for a model whose values jump. Rounding to bf16 moves a share of about 2^-8 of the
// values past a jump, and each by its size, so that a tensor changes by the root of it, 6 % of its
// norm, at each of a few operators and steps. A wrong factor or a missing rank changes it by half
// and more.
inline constexpr double kLoweredJumpTolerance = 0.25;

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_CONFORMANCE_COMPARE_TRAINING_H_
