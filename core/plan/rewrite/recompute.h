// Recomputation: the activations inside a block are not kept for the backward pass. They are
// computed again right before it, from the inputs of the block.
#ifndef TESSERA_CORE_PLAN_REWRITE_RECOMPUTE_H_
#define TESSERA_CORE_PLAN_REWRITE_RECOMPUTE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// Returns the Graph in which each of `blocks` (paths of block scopes) is recomputed. It computes
// the same bits. The forward ops of a block that its backward pass needs are copied to just before
// the first backward op that reads an activation of the block, and backward ops read the copies. A
// copy of `p` has the path `p.recomputed`, the same attributes (random draws keep the path of their
// original), the phase kBackward, and Op::recomputed set.
//
// Values that are kept anyway are not recomputed: the block's inputs; its values that another
// forward op, an output or a state reads (so its output is one of them); and views of these values
// and of parameters. A copy that reads only kept values has an order edge to the op that computes
// the gradient at the end of the block, so that no scheduler moves it into the forward pass.
//
// InvalidArgument if one of `blocks` does not exist; the error names the blocks that do.
absl::StatusOr<Graph> RecomputeBlocks(const Graph& graph, absl::Span<const std::string> blocks);

// Returns InvalidArgument if one of `blocks` is not a block of the Graph.
absl::Status CheckBlocks(const Graph& graph, absl::Span<const std::string> blocks);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_RECOMPUTE_H_
