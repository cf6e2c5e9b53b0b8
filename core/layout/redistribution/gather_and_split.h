// A redistribution that needs no search.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_GATHER_AND_SPLIT_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_GATHER_AND_SPLIT_H_

#include <optional>

#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"

namespace tessera {

// Returns steps between layouts of which no part stays as it is, on a mesh of axes of more than one
// rank: an all-reduce along all axes that hold partial values, an all-gather of all splits, and
// then local steps. If nothing is split, axes that become splits are reduce-scattered instead.
// Returns nullopt if no steps lead to `to`. The price is not set.
std::optional<Redistribution> GatherAndSplit(const MeshLayout& from, const MeshLayout& to,
                                             const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_GATHER_AND_SPLIT_H_
