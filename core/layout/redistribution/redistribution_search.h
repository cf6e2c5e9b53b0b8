// The search for one redistribution.
#ifndef TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_SEARCH_H_
#define TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_SEARCH_H_

#include <optional>

#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/layout/traffic/collective_call.h"
#include "core/tensor/shape.h"

namespace tessera {

// Returns the cheapest redistribution between layouts that fit the type; nullopt if there is none.
std::optional<Redistribution> SearchRedistribution(const MeshLayout& from, const MeshLayout& to,
                                                   const TensorType& type, const Mesh& mesh,
                                                   const CollectivePrices& prices);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_REDISTRIBUTION_REDISTRIBUTION_SEARCH_H_
