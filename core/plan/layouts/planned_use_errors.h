// The errors of uses that a Plan names and that an op cannot have. All are InvalidArgument.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_PLAN_LAYOUTS_PLANNED_USE_ERRORS_H_
#define TESSERA_CORE_PLAN_LAYOUTS_PLANNED_USE_ERRORS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/layout/layout.h"
#include "core/plan/layouts/axis_use.h"

namespace tessera {

// The Plan gives `op` a signature along the axis that is none of the possible ones.
absl::Status NoSuchSignature(const Graph& graph, const Op& op, const AxisUse& planned,
                             absl::Span<const Signature> possible, const std::string& axis);

// The Plan computes `op` as `flat` along the axis, but not so along the other axes of its group.
absl::Status NotOnRange(const Op& op, const std::string& axis);

}  // namespace tessera

#endif  // TESSERA_CORE_PLAN_LAYOUTS_PLANNED_USE_ERRORS_H_
