// Chooses how each op of a Graph is computed along one axis of a mesh; see graph_layouts.h.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_AXIS_COMPLETION_H_
#define TESSERA_CORE_PLAN_LAYOUTS_AXIS_COMPLETION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/layout.h"
#include "core/layout/mesh.h"
#include "core/layout/signature_fit.h"
#include "core/plan/layouts/axis_use.h"

namespace tessera {

// The local types of an op's inputs and outputs, after the split along the preceding axes.
struct LocalTypes {
  absl::Span<const TensorType> inputs, outputs;
};

// How a value is stored along the axis.
struct AxisStore {
  AxisLayout layout;
  bool flat = false;
};

// The decisions about one axis.
struct AxisDecisions {
  Table<OpId, const AxisUse*> ops;  // nullptr: open
  // How an input, or the input value of a state, is stored; nothing for a cache that the
  // Plan leaves open.
  Table<ValueId, std::optional<AxisStore>> stored;
  // How the update reads or writes a state's input or updated value, or the gradient of a
  // parameter that is updated.
  Table<ValueId, std::optional<AxisStore>> updated;
  // Whether an op reads and writes members of flat groups in full, not on the range that a rank
  // holds.
  Table<OpId, bool> gathers;
};

struct AxisResult {
  Table<OpId, AxisUse> ops;
  Table<ValueId, AxisLayout> values;  // as they are made; a state's input value as it is stored
};

// `preceding` are the uses of each op along the preceding axes, `axis` is the next one of `mesh`.
absl::StatusOr<AxisResult> CompleteAxis(const Graph& graph, const Table<OpId, LocalTypes>& types,
                                        const Table<OpId, std::vector<AxisUse>>& preceding,
                                        const AxisDecisions& decisions, const Mesh& mesh, int axis);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_AXIS_COMPLETION_H_
