// Slices: a large parameter is stored, gathered, used and updated in several parts, each with its
// own layout, so that only one part at a time needs to be in memory in full.
#ifndef TESSERA_CORE_PLAN_REWRITE_SLICES_H_
#define TESSERA_CORE_PLAN_REWRITE_SLICES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/plan/rewrite/slice_layouts.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Finds the parameters that a stage stores in slices, and their optimizer state. InvalidArgument,
// in one line, names the choice and the fault: a path that matches nothing, or matches something
// other than parameters and their optimizer state; a parameter that two choices name; a dimension
// that it lacks; fewer than two slices; or so many slices that one would be empty.
//
// If the Plan has parts (with fingerprints) for other Graphs, it was completed for them as well, so
// its choices may match nothing here.
absl::StatusOr<SliceDecisions> FindSlices(const Stage& stage, absl::Span<const Graph> graphs);

// Returns the recorded Graphs with slices. They compute the same values, up to the rounding of
// sums. LayOutSlices (slice_layouts.h) decides which op runs slice by slice; its errors are
// returned. This rewriting comes before layouts on a mesh, recomputation and micro-batches.
//
// The slices of an op run one after another, in the Graph's order. An activation that is computed
// in parts is assembled; one that is computed as a sum of terms is added up.
//
// Paths: a slice of state `p` has the path `p[begin:end]`, with its elements along the sliced
// dimension ("w[0:64]", and its optimizer state "w.adam_m[0:64]"). An op that uses the slice, and
// its outputs, have the same suffix. The sum of the slices up to element `end` has the suffix
// `[0:end]`; the value made of all slices has its recorded path. An added op has its kind at the
// end of its path ("p.concat", "p.slices", "p[0:128].add").
//
// State::origin identifies the state of which this is a slice, and State::region its elements;
// Op::slice_of and Op::slice identify an op's. Random draws keep the path of their original and get
// the region of the global tensor that they fill, so they draw the same numbers.
absl::StatusOr<std::vector<Graph>> SliceGraphs(absl::Span<const Graph> graphs,
                                               const SliceDecisions& decisions);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_REWRITE_SLICES_H_
