// Redistributions that a Plan states, instead of those that a search finds.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_STATED_PATH_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_STATED_PATH_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/tensor/shape.h"

namespace tessera {

// Errors are InvalidArgument, in one line that quotes the step and says what would be right.
// Thread safety: pure functions.

// Parses a step as RedistributionStep::ToString writes it. CheckPath checks whether it is possible.
absl::StatusOr<RedistributionStep> ParseStep(absl::string_view text, const Mesh& mesh);

// Checks that each step is what RedistributionStep::Kind says, and that the steps lead from layout
// `from` to layout `to` of a type. Where a step begins, and at the end, the layout may be another
// one that holds the same elements. In the layouts of steps an axis of one rank is B.
absl::Status CheckPath(absl::Span<const RedistributionStep> steps, const MeshLayout& from,
                       const MeshLayout& to, const TensorType& type, const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_STATED_PATH_H_
