// Parses layouts that a person has written in a Plan.
//
// Errors are InvalidArgument, in one line that quotes the text and says what would be right.
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

// Parses "B", "S(0)", "S(0, 128)", "P" or "P(sum)", "P(max)", "P(min)", "P(lse)".
absl::StatusOr<AxisLayout> ParseAxisLayout(absl::string_view text);

// Parses text like "S(0), B -> S(0)": the layouts of an operator's inputs and outputs along one
// axis.
absl::StatusOr<Signature> ParseSignature(absl::string_view text);

// Parses text like "data: S(0), model: P", with one clause for each axis, in any order. An axis
// without a clause is B. If several axes split one dimension, the earlier clause is the outer
// split. "B" and "" mean B along all axes.
absl::StatusOr<MeshLayout> ParseMeshLayout(absl::string_view text, const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_LAYOUT_TEXT_H_
