// Kept logits: the head of a language model with cross-entropy (linear_log_sum_exp) does not
// discard its logits, so that its gradient need not compute them again. They are the largest
// tensor of many models: [rows..., vocabulary], of f32 in any precision.
#ifndef TESSERA_CORE_PLAN_REWRITE_KEEP_LOGITS_H_
#define TESSERA_CORE_PLAN_REWRITE_KEEP_LOGITS_H_

#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/plan/rewrite/recomputed_ops.h"

namespace tessera {

// Returns whether the Graph has the gradient of a linear_log_sum_exp: something that could read the
// logits, if they were kept.
bool HasLogitsToKeep(const Graph& graph);

// Returns the Graph in which each linear_log_sum_exp of the path `p` keeps its logits, as the value
// `p.logits`, and its gradient reads them. With the same kernels it computes the same bits. If each
// slice of a parameter has an op and a gradient of its own, each has its own logits. An op is left
// alone if no gradient works on the same operands, or if it is to be recomputed: the recomputation
// would compute its logits again in any case.
//
// This rewriting comes after layouts on a mesh have been chosen (see AddLogits), so that a Plan
// names the same signatures whether logits are kept or not, and before recomputation and
// micro-batches, which repeat and split existing ops: each micro-batch keeps its own logits.
Graph KeepLogits(const Graph& graph, const RecomputedOps& recomputed);

// Adds to the signature of an op of the recorded Graph, along one axis, the layout of the logits
// that `op`, the op as rewritten, writes or reads. Logits are split as x or w is. Changes nothing
// if the op has no kept logits.
void AddLogits(const Graph& graph, const Op& op, Signature& signature);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_KEEP_LOGITS_H_
