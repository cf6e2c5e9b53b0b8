// The shapes that parts have on the ranks of a mesh.
#ifndef TESSERA_CORE_PROGRAM_RANK_EXTENTS_H_
#define TESSERA_CORE_PROGRAM_RANK_EXTENTS_H_

#include <vector>

#include "absl/types/span.h"
#include "core/layout/mesh.h"
#include "core/program/program.h"

namespace tessera {

// Returns coordinates of ranks, such that every combination of shapes that these values have on
// some rank is the one on a rank that is returned. Few, whatever the size of the mesh: along an
// axis the extent of a part changes at two coordinates.
std::vector<MeshCoordinates> RanksOfAllShapes(const Program& program,
                                              absl::Span<const int32_t> values);

}  // namespace tessera

#endif  // TESSERA_CORE_PROGRAM_RANK_EXTENTS_H_
