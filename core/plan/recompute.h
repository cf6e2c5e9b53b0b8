// Recomputation: the activations inside of a block are not kept for the backward pass but computed
// again right before it, from what goes into the block.
#ifndef TESSERA_CORE_PLAN_RECOMPUTE_H_
#define TESSERA_CORE_PLAN_RECOMPUTE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// Returns the Graph in which each of `blocks` (paths of block scopes) is recomputed; it computes
// the same bits. The forward ops of a block that its backward pass needs are copied to before the
// first backward op that reads an activation of the block, and backward ops read the copies. A copy
// of `p` has the path `p.recomputed`, the same attributes (random draws keep their original's
// path), the phase kBackward, and Op::recomputed set.
//
// Values that are kept anyway are not copied: inputs of the block, values of it that other forward
// ops, an output or a state read (so its output), and views of these and of parameters. A copy that
// reads only kept values has an order edge to the op that makes the gradient at the block's end, so
// that no scheduler moves it into the forward pass.
//
// InvalidArgument names the blocks that there are if one of `blocks` is none.
absl::StatusOr<Graph> RecomputeBlocks(const Graph& graph, absl::Span<const std::string> blocks);

// InvalidArgument if one of `blocks` is no block of the Graph.
absl::Status CheckBlocks(const Graph& graph, absl::Span<const std::string> blocks);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_RECOMPUTE_H_
