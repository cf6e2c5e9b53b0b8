// Lower precision: operators compute on bf16 or f16 instead of f32. Parameters and optimizer state
// stay f32.
#ifndef TESSERA_CORE_PLAN_REWRITE_PRECISION_H_
#define TESSERA_CORE_PLAN_REWRITE_PRECISION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/graph/graph.h"
#include "core/plan/rewrite/precision_choice.h"

namespace tessera {

// The path of the loss scale, a factor by which the loss, and so every gradient, is multiplied. A
// training Graph must have this state to be rewritten to f16, in which the smallest gradients would
// otherwise become 0.
inline constexpr absl::string_view kLossScalePath = "optimizer.loss_scale";

// Returns the Graph with f32 values in fewer bits, as `precision` says.
//
// An operator of the forward or backward pass computes in `parameters` if one of its operands does.
// States that the Graph reads, its inputs and its constants get the dtype that their readers need:
// they are cast where they are read (constants are filled in that dtype). Such values lower the
// precision of an operator only if it reads no others, and at least one that is no constant. What
// is computed from a cast of integers and constants alone, such as the pixels of pictures from
// their bytes, is f32, and does not keep an operator that reads it with a parameter from fewer
// bits. Statistics (Operator::IsStatistic) are f32, as are values computed from statistics alone:
// the losses of the rows, their mean, and its gradient up to that of the logits. An operator that
// `in_f32` names reads and computes f32, as do its gradient operators, even if their neighbours use
// fewer bits. An operator that reads optimizer state, such as the loss scale, also reads and
// computes f32.
//
// States stay f32: the update reads and writes these master values. A parameter's gradient is
// computed in the dtype of its operator and cast to `reduction` (the parts of one that a concat
// assembles are cast to f32 instead, if that is the reduction). In this dtype it is reduced over
// ranks and micro-batches and read by the update (in f32, if an operator of the update accepts no
// other dtype). Caches have no master values and are stored in `parameters`. Running statistics,
// and what is computed from them alone, stay f32.
//
// This rewriting comes after slices, so that each slice is cast by itself. It comes before layouts
// on a mesh, which decide where a value is cast, and before recomputation and micro-batches, which
// repeat and split existing ops. It is the same for all Graphs of a run, because they share the
// types of caches.
//
// Paths: a value `p` whose dtype differs from the Graph's has the path `p.bf16` (or `p.f32`), as
// has the op that casts it. All other values keep their paths.
//
// InvalidArgument if a Graph that trains is to compute in f16 and has no loss scale.
absl::StatusOr<Graph> RewritePrecision(const Graph& graph, const Precision& precision);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_PRECISION_H_
