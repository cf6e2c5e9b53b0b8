// The use of an operator on this rank's range of flat groups.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_FLAT_USE_H_
#define TESSERA_CORE_PLAN_LAYOUTS_FLAT_USE_H_

#include <optional>

#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/ids/table.h"
#include "core/layout/layout.h"
#include "core/plan/layouts/axis_completion.h"
#include "core/plan/layouts/axis_use.h"

namespace tessera {

// Returns whether `op` works on members of flat groups, and may do so on a rank's range: it casts
// such a parameter, writes such a state, or belongs to the update and reads one. `stored` and
// `updated` are as in AxisDecisions. Thread safety: a pure function.
bool MayBeFlat(const Graph& graph, const Op& op,
               const Table<ValueId, std::optional<AxisStore>>& stored,
               const Table<ValueId, std::optional<AxisStore>>& updated);

// Returns the use of `op` on this rank's range of its flat inputs and outputs, if it is
// elementwise, or a reduction (whose output is then partial); nullopt for any other op. `types` and
// `signatures` are those of the op along the axis, `updated` as in AxisDecisions. Thread safety: a
// pure function.
std::optional<AxisUse> UseOnFlatRange(const Op& op, const LocalTypes& types,
                                      const Table<ValueId, std::optional<AxisStore>>& updated,
                                      absl::Span<const Signature> signatures);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_FLAT_USE_H_
