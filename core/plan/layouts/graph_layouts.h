// Chooses the layouts of all operators of a Graph on a mesh: completes what a Plan leaves open.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_GRAPH_LAYOUTS_H_
#define TESSERA_CORE_PLAN_LAYOUTS_GRAPH_LAYOUTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/plan/layouts/axis_use.h"
#include "core/plan/layouts/layout_decisions.h"

namespace tessera {

struct GraphLayouts {
  Table<OpId, std::vector<AxisUse>> ops;                // by axis
  absl::flat_hash_map<std::string, MeshLayout> caches;  // those that the Plan does not name
};

// Chooses how each op is computed. Axes are decided one after another, the outermost first, on the
// padded local types that result from the preceding axes.
//
// A value is flexible if it can be brought to any layout: parameters, optimizer state, constants,
// and values that are computed from these alone. For each op, the first rule that applies is used:
// 1. The Plan's signature, which may be one of Operator::StatedSignatures(). If the stage names it,
//    its units are multiplied so that they match those in which values arrive.
// 2. An op that writes states computes them as they are stored (see LayoutDecisions::updated); in
//    a flat group, on this rank's range, unless the Plan computes the op in another way along some
//    axis; then it works on gathered values, along all axes of the group. A parameter's gradient
//    arrives in the same layout, and is reduced on that range. An op that casts a parameter to
//    fewer bits runs on what a rank stores of it, and its output is as flexible as the parameter.
// 3. An op that records a gradient takes the dual of its forward op's signature, in parts if that
//    is. It reads values of the forward pass in the layouts in which the forward op read or
//    computed them (completed, if partial). The gradient of an S value is S, of a P value B, and of
//    a B value P or B. If several signatures fit, the one for which the fewest values are
//    redistributed is used, then the first. The gradient of an op that is computed on B completes
//    partial inputs first.
// 4. The signature that fits the layouts of the inputs, as chosen by FitOrGather
//    (core/layout/signature_fit.h). A flexible input does not become partial, with two exceptions:
//    a constant, if its op can compute it as partial, and, in the update, a B input beside a
//    partial one (the sum of a clipping norm).
// 5. An op none of whose inputs arrives split or partial is computed in the layout in which its
//    outputs are read, if all readers read the same part of each output; otherwise on B.
//
// InvalidArgument, in one line, names an operator that does not have the Plan's signature, with the
// signatures that it has, or an update that cannot be computed on a flat range.
//
// `number` is the index of the Graph in `decisions`. Thread safety: a pure function.
absl::StatusOr<GraphLayouts> LayOutGraph(const Graph& graph, int number, const Mesh& mesh,
                                         const LayoutDecisions& decisions);

// Replaces types by the padded local types of values with these layouts along an axis of `ranks`
// ranks.
void ShrinkToParts(absl::Span<const AxisLayout> layouts, int ranks, absl::Span<TensorType> types);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_GRAPH_LAYOUTS_H_
