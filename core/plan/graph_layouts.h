// The layouts of all operators of a Graph on a mesh: what a Plan leaves open is completed.
#ifndef TESSERA_CORE_PLAN_GRAPH_LAYOUTS_H_
#define TESSERA_CORE_PLAN_GRAPH_LAYOUTS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/plan/axis_use.h"
#include "core/plan/layout_decisions.h"

namespace tessera {

struct GraphLayouts {
  std::vector<std::vector<AxisUse>> ops;                // by op and axis
  absl::flat_hash_map<std::string, MeshLayout> caches;  // those that the Plan does not name
};

// Chooses how each op is computed, one axis after the other, the outermost first; the types that an
// axis sees are the padded local ones that the axes before it leave.
//
// Parameters, optimizer state and constants can be brought to any layout, and so can what follows
// from them alone: these values are flexible. An op is computed by the first rule that applies:
// 1. As the Plan says. The units of a signature that the stage names are multiplied to those in
//    which values arrive.
// 2. An op that writes states makes them as they are stored (as LayoutDecisions::updated says); in
//    a flat group, on the range that a rank holds. A parameter's gradient arrives in the same
//    layout, and is reduced on that range. An op that casts a parameter to fewer bits runs on what
//    a rank stores of it, and its output is as flexible as the parameter.
// 3. An op that records a gradient takes the dual of its forward op's signature: it reads values of
//    the forward pass in the layouts in which that read or made them (completed, if partial), and
//    the gradient of a value that is S is S, of one that is P is B, of one that is B is P or B. Of
//    several such signatures, the one that needs the fewest values moved, then the first. The
//    gradient of an op that is computed on B completes partial inputs first.
// 4. The signature that takes what arrives, as FitOrGather (core/layout/signature_fit.h) chooses
//    it. No flexible input becomes partial, but a constant that its op can make so; in the update,
//    a B input beside a partial one may (the sum of a clipping norm).
// 5. An op none of whose inputs arrives split or partial is computed as its outputs are read, if
//    all readers read the same part of each, else on B.
//
// InvalidArgument, in one line, names the operator that does not have the signature that the Plan
// gives it, and those that it has; or the update that cannot be computed on a flat range.
//
// `number` is the Graph's in `decisions`. Thread safety: a pure function.
absl::StatusOr<GraphLayouts> LayOutGraph(const Graph& graph, int number, const Mesh& mesh,
                                         const LayoutDecisions& decisions);

// Makes the types of values with these layouts along an axis of `ranks` ranks the padded local
// ones.
void ShrinkToParts(absl::Span<const AxisLayout> layouts, int ranks, std::vector<TensorType>& types);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_GRAPH_LAYOUTS_H_
