// Gradient accumulation: splits the batch of a Graph into micro-batches that run one after another,
// so that only the activations of one are live at a time. The contributions of the micro-batches to
// a full value (a gradient, the loss) are added up in order.
#ifndef TESSERA_CORE_PLAN_REWRITE_MICRO_BATCHES_H_
#define TESSERA_CORE_PLAN_REWRITE_MICRO_BATCHES_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// Returns the Graph in which the batch is split into `micro_batches` equal parts. It computes the
// same values, up to the rounding of sums. LayOutMicroBatches (micro_batch_layouts.h) decides what
// is split; its errors are returned, and micro_batches < 1 is an error. For 1 the Graph is returned
// unchanged.
//
// Order: first the values of the full batch that micro-batches need, such as the number of valid
// targets; then one micro-batch after another, each forward and backward in the Graph's order; then
// the ops that run once (the update).
//
// An input with a batch stays one input, which is split. An input that `separate` names becomes one
// input for each micro-batch, so that on a mesh that splits the batch each rank gets its part of
// every micro-batch. The input `p` of micro-batch k has the path `p@k`, the origin `p`, and the
// region of its rows.
//
// Paths: the copy of `p` in micro-batch k is `p@k`, as is its part of a full value that is split.
// The value that is gathered from all micro-batches has the path `p`; the running sum of
// micro-batches 0 to k is `p@0..k`. Random draws keep the path of their original and get the region
// of the global tensor that they fill, so they draw the same numbers.
//
// Recomputation (recompute.h) must be done before: afterwards the forward ops of all micro-batches
// are in one block scope, and cannot be told apart.
//
// Ops keep their origin; gradients keep the value that they are gradients of. The copies of a
// micro-batch are identified by Op::micro_batch, and its parts of values by Value::region.
absl::StatusOr<Graph> SplitIntoMicroBatches(const Graph& graph, int64_t micro_batches,
                                            absl::Span<const std::string> separate = {});

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_MICRO_BATCHES_H_
