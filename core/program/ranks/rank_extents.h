// The shapes that parts have on the ranks of a mesh.
#ifndef TESSERA_CORE_PROGRAM_RANKS_RANK_EXTENTS_H_
#define TESSERA_CORE_PROGRAM_RANKS_RANK_EXTENTS_H_

#include <vector>

#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/program/program.h"

namespace tessera {

// Returns coordinates of ranks: for every combination of shapes that these values have on some
// rank, at least one returned rank has it. Few ranks are returned whatever the size of the mesh,
// because a part's extent changes at only two coordinates along an axis.
std::vector<MeshCoordinates> RanksOfAllShapes(const Program& program,
                                              absl::Span<const ProgramValueId> values);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANKS_RANK_EXTENTS_H_
