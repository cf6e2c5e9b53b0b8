// All ranks run one Program. It holds rules for the numbers that differ between ranks. They are
// evaluated for the mesh coordinates of a rank when the Program is bound to it; neither kernel
// requests nor offsets depend on them.
#ifndef TESSERA_CORE_PROGRAM_RANK_RULES_H_
#define TESSERA_CORE_PROGRAM_RANK_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/kernels/interface/random_draw.h"
#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"

namespace tessera {

// The part of a global tensor that a value is. First in time: elements [start, start + extent) of
// the global tensor belong to the value's micro-batch or slice. Then over devices: `layout` says
// which of those a rank holds.
struct PartRule {
  Shape global;
  Shape start;
  Shape extent;
  MeshLayout layout;

  // The elements of the global tensor that the rank at `coordinates` holds.
  Box At(const Mesh& mesh, absl::Span<const int> coordinates) const;
  // The shape of a value's buffer, which is the same on all ranks: shorter parts have padding.
  Shape LocalShape(const Mesh& mesh) const;
};

// InvalidArgument if the part lies outside of the global tensor, or the layout does not fit it.
absl::Status CheckPart(const PartRule& part, const Mesh& mesh);

// The random numbers that an instruction draws.
struct DrawRule {
  std::string path;
  PartRule part;  // output 0

  RandomDraw At(const Mesh& mesh, absl::Span<const int> coordinates) const;
  // "blocks.0.dropout", "blocks.0.dropout at [2, 0] of [4, 3]", "... of [4, 3], data: S(0)"
  std::string ToString(const Mesh& mesh) const;
};

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANK_RULES_H_
