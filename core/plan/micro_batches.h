// Cuts the batch of a Graph into turns that run one after another, so that only one turn's
// activations are alive at a time. What each turn contributes to a whole (a gradient, the loss) is
// added up, in the order of the turns.
#ifndef TESSERA_CORE_PLAN_MICRO_BATCHES_H_
#define TESSERA_CORE_PLAN_MICRO_BATCHES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/graph/graph.h"

namespace tessera {

// Gives the Graph in which the batch is cut into `turns` equal parts; it computes the same, up to
// the rounding of sums. What is cut is decided by LayOutOverTurns (turn_layouts.h); its errors are
// this function's, and turns < 1 is one. One turn gives the Graph as it is.
//
// Order: what the turns need of the whole batch (the count of valid targets), then turn after turn,
// each forward and backward in the Graph's order, then what runs once (the update).
//
// Paths: turn k's copy of `p` is `p@k`, and so is its part of a whole value that is cut. What is
// gathered from the turns has the path `p`; the sum of turns 0 to k on the way there is `p@0..k`.
// Random draws keep their original's path and learn which elements of the whole they make, so they
// draw the same.
//
// Recomputation (recompute.h) comes before this; afterwards a block's forward ops of all turns lie
// in one scope, and could not be told apart.
absl::StatusOr<Graph> CutIntoMicroBatches(const Graph& graph, int64_t turns);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_MICRO_BATCHES_H_
