// A redistribution that needs no search.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_GATHER_AND_SPLIT_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_GATHER_AND_SPLIT_H_

#include <optional>

#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"

namespace tessera {

// Returns steps between layouts that differ along every axis, each of more than one rank: one
// all-reduce along the axes that hold partial values, one all-gather of all splits, and then local
// steps. Returns nullopt if no steps lead to `to`. Its price is not set.
std::optional<Redistribution> GatherAndSplit(const MeshLayout& from, const MeshLayout& to,
                                             const Mesh& mesh);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_GATHER_AND_SPLIT_H_
