// Whether strategies do the same training: from the same initial state and data, all of them have
// the same losses, gradients and parameters, up to rounding.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_COMPARE_SAME_TRAINING_H_
#define TESSERA_TOOLS_COMPARE_SAME_TRAINING_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "tools/compare/held_sketch.h"

namespace tessera {

// A number that every rank has.
struct RankNumber {
  double value = 0;  // that of rank 0
  // The rank whose number differs most from it; -1 if all are equal.
  int rank = -1;
  double of_rank = 0;
};

// Returns the number of all ranks; values[r] is that of rank r.
RankNumber NumberOfRanks(absl::Span<const double> values);

// A step of gradient descent, on all ranks.
struct CheckedStep {
  RankNumber loss, grad_norm;
  std::vector<SketchedTensor> gradients;   // in the order in which they are computed
  std::vector<SketchedTensor> parameters;  // after the step
  std::vector<SketchedTensor> statistics;  // running statistics, after the step
};

// How rounding changes the results of a strategy.
struct Rounding {
  bool lowered = false;  // parameters are used, or gradients reduced, in 16 bits
  bool jumps = false;    // an operator is not continuous (Operator::IsContinuous)
};

struct CheckedTraining {
  std::string label;  // of the strategy
  Rounding rounding;
  std::vector<SketchedTensor> initial;  // parameters
  std::vector<CheckedStep> steps;
};

// The steps of the timed rounds.
struct LossSeries {
  std::string label;
  Rounding rounding;
  std::vector<double> losses, grad_norms;  // by step
};

struct Verdict {
  // The strategy that most others agree with, the first one of several; -1 if there are none.
  int reference = -1;
  // By strategy: one sentence without its end, "mine trains differently from ddp: in step 1 ...",
  // which names the first tensor that differs; "" if it trains as the reference does.
  std::vector<std::string> faults;
};

// Two tensors differ if their distance exceeds 1e-4 of their norm and 1e-6 of that of all gradients
// (so that a gradient which is exactly 0 may have any rounding error). Parameters are compared by
// how a step changes them. If ranks hold the same elements, these must be equal too. Losses may
// differ by 1e-5 and norms of all gradients by 1e-4. If one of two strategies lowers the precision,
// these are 0.1, 1e-3, 0.01 and 0.1.
//
// Where an operator jumps, such as the gradient of relu, an element next to the jump is computed
// otherwise if it is rounded otherwise. The share of these elements is proportional to the rounding
// error, and so their part of a norm is to its square root: tensors, their norms, and losses after
// the first step may differ by 0.01, 0.01 and 1e-4; in lower precision by 0.3, 0.3 and 0.01.
Verdict JudgeTraining(absl::Span<const CheckedTraining> strategies);

// Compares the losses and norms of the steps that strategies have in common, up to the same shares
// or 30 times the largest difference of the steps before.
Verdict JudgeSeries(absl::Span<const LossSeries> strategies);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMPARE_SAME_TRAINING_H_
