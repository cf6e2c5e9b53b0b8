// Short functions with which operators write their layout signatures.
#ifndef TESSERA_CORE_OPS_SIGNATURES_H_
#define TESSERA_CORE_OPS_SIGNATURES_H_

#include <vector>

#include "core/graph/operator.h"
#include "core/layout/layout.h"

namespace tessera {

namespace sbp {
inline AxisLayout S(int dim, int64_t unit = 1) { return AxisLayout::Split(dim, unit); }
inline AxisLayout B() { return AxisLayout::Broadcast(); }
inline AxisLayout P(AxisLayout::Reduction reduction = AxisLayout::Reduction::kSum) {
  return AxisLayout::Partial(reduction);
}
inline AxisLayout PMax() { return P(AxisLayout::Reduction::kMax); }
inline AxisLayout PMin() { return P(AxisLayout::Reduction::kMin); }
inline AxisLayout PLse() { return P(AxisLayout::Reduction::kLogSumExp); }
}  // namespace sbp

// Returns the signatures that keep partial maxima and minima, of an increasing and of a decreasing
// function of one input.
std::vector<Signature> OfIncreasing();
std::vector<Signature> OfDecreasing();

// Appends the signatures that keep partial values of any kind partial, for operators that only move
// elements. Integers have no partial log-sum-exps.
std::vector<Signature> WithPartial(std::vector<Signature> signatures, const OpTypes& types);

// Returns one signature for each dimension d of the outputs, for operators that compute each
// element from the elements at its position, with numpy's broadcasting. All outputs must have the
// same shape. Inputs are split along the dimension that corresponds to d, or not split if they are
// broadcast along it.
std::vector<Signature> SplitEveryDim(const OpTypes& types);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_SIGNATURES_H_
