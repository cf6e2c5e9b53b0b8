// Slices: a large parameter is stored, gathered, used and updated in several parts, each of which
// has a layout of its own, so that only one part of it need be there in full at a time.
#ifndef TESSERA_CORE_PLAN_SLICES_H_
#define TESSERA_CORE_PLAN_SLICES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/plan/slice_layouts.h"
#include "core/proto/plan.pb.h"

namespace tessera {

// Finds the parameters that a stage stores in slices, and their optimizer state. InvalidArgument,
// in one line, names the choice and the fault: a path that matches nothing, or something else than
// parameters and their optimizer state; a parameter that two choices name, a dimension that it
// lacks, fewer than two slices, or so many that one would be empty.
//
// A Plan with parts (with fingerprints) for other Graphs was completed for them too, so its choices
// may match nothing.
absl::StatusOr<SliceDecisions> FindSlices(const Stage& stage, absl::Span<const Graph> graphs);

// Returns the Graphs, as they were recorded, with slices: they compute the same, up to the rounding
// of sums. LayOutSlices (slice_layouts.h) says which op runs slice by slice; its errors are this
// function's. This comes before layouts on a mesh, recomputation and micro-batches.
//
// The slices of an op run one after another, in the Graph's order. An activation that they make in
// parts is assembled, one of which they make terms is added up.
//
// Paths: a slice of state `p` has the path `p[begin:end]`, with its elements along the sliced
// dimension ("w[0:64]", and its optimizer state "w.adam_m[0:64]"). An op that uses the slice, and
// what it makes, have the same at the end of theirs. The sum of slices up to that one has
// `[0:end]`, the value made of all slices its recorded path. An op that is added has its kind at
// the end of its path ("p.concat", "p.slices", "p[0:128].add").
//
// A slice's origin is known by State::origin and its elements by State::region; an op's by
// Op::slice_of and Op::slice. Random draws keep their original's path and get the region of the
// global tensor that they make, so they draw the same.
absl::StatusOr<std::vector<Graph>> SliceGraphs(absl::Span<const Graph> graphs,
                                               const SliceDecisions& decisions);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_SLICES_H_
