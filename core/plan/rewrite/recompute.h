// Recomputation: activations are not kept for the backward pass. They are computed again right
// before it reads them, from what is kept.
#ifndef TESSERA_CORE_PLAN_REWRITE_RECOMPUTE_H_
#define TESSERA_CORE_PLAN_REWRITE_RECOMPUTE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// Returns the Graph in which what `paths` name is recomputed: whole blocks, or scopes and operators
// in or outside of a block (recomputed_ops.h). It computes the same bits. The forward ops that the
// backward pass needs are copied, and backward ops read the copies. A copy of `p` has the path
// `p.recomputed`, the same attributes (random draws keep the path of their original), the phase
// kBackward, and Op::recomputed set.
//
// If a block is recomputed as a whole, its copies stand just before the first backward op that
// reads an activation of the block. Values that are kept anyway are not recomputed: the block's
// inputs; its values that another forward op, an op of the update, an output or a state reads (so
// its output is one of them); constants of one element; and views of these values and of
// parameters.
//
// If other scopes and operators are recomputed, each copy stands just before the first backward op
// that needs it. Their outputs are not kept, whichever forward ops of the same block read them;
// their inputs are, unless they are outputs of another one that is named: then copies read copies.
// Views of outputs are recomputed too. Values that an op of another block or of the update, an
// output or a state reads are kept: without a block's output, its copies would need those of all
// blocks before it.
//
// A copy that reads only kept values has an order edge, so that no scheduler moves it into the
// forward pass: to the op that computes the gradient at the end of a whole block, or else to the
// last op of the backward pass on which the first op that needs the copy depends.
//
// InvalidArgument if one of `paths` matches nothing; the error names the blocks.
absl::StatusOr<Graph> Recompute(const Graph& graph, absl::Span<const std::string> paths);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_RECOMPUTE_H_
