// The text forms of layouts, as a person writes them in a Plan.
//
// Errors are InvalidArgument in one line, which says what was read and what would be right.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_LAYOUT_TEXT_H_
#define TESSERA_CORE_LAYOUT_LAYOUT_TEXT_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/layout/layout.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"

namespace tessera {

// "B", "S(0)", "S(0, 128)", "P" or "P(sum)", "P(max)", "P(min)", "P(lse)".
absl::StatusOr<AxisLayout> ParseAxisLayout(absl::string_view text);

// "S(0), B -> S(0)": the layouts of an operator's inputs and outputs along one axis.
absl::StatusOr<Signature> ParseSignature(absl::string_view text);

// "data: S(0), model: P": one clause for each axis, in any order; an axis without a clause is B. If
// several axes split one dimension, the earlier clause is the outer split. "B" and "" are B along
// all axes.
absl::StatusOr<MeshLayout> ParseMeshLayout(absl::string_view text, const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_LAYOUT_TEXT_H_
