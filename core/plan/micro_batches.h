// Gradient accumulation: splits the batch of a Graph into micro-batches that run one after another,
// so that only the activations of one are live at a time. Their contributions to a full value (a
// gradient, the loss) are added up in order.
#ifndef TESSERA_CORE_PLAN_MICRO_BATCHES_H_
#define TESSERA_CORE_PLAN_MICRO_BATCHES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// Returns the Graph in which the batch is split into `micro_batches` equal parts; it computes the
// same, up to the rounding of sums. LayOutMicroBatches (micro_batch_layouts.h) decides what is
// split; its errors are this function's, and micro_batches < 1 is one. For 1 the Graph stays as it
// is.
//
// Order: quantities of the full batch that micro-batches need, such as the number of valid targets;
// then one micro-batch after another, each forward and backward in the Graph's order; then the ops
// that run once (the update).
//
// An input with a batch stays one input, which is split; but one that `separate` names becomes an
// input for each micro-batch, so that on a mesh that splits the batch each rank gets its part of
// every micro-batch. The path of each is `p@k`, its origin `p`, its region the rows that it has.
//
// Paths: the copy of `p` in micro-batch k is `p@k`, and so is its part of a full value that is
// split. The value gathered from all has the path `p`; the sum of micro-batches 0 to k, on the way
// there, is `p@0..k`. Random draws keep their original's path and get the region of the global
// tensor that they make, so they draw the same.
//
// Recomputation (recompute.h) comes before this; afterwards a block's forward ops of all
// micro-batches lie in one scope, and could not be told apart.
//
// Ops keep their origin; gradients, what they are gradients of. A micro-batch's copies are known by
// Op::micro_batch, its parts of values by Value::region.
absl::StatusOr<Graph> SplitIntoMicroBatches(const Graph& graph, int64_t micro_batches,
                                            absl::Span<const std::string> separate = {});

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_MICRO_BATCHES_H_
