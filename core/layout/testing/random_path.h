// For tests: draws steps that lead from a layout to others, as a Plan may state them.
#ifndef TESSERA_CORE_LAYOUT_TESTING_RANDOM_PATH_H_
#define TESSERA_CORE_LAYOUT_TESTING_RANDOM_PATH_H_

#include <random>
#include <vector>

#include "core/layout/mesh.h"
#include "core/layout/mesh_layout.h"
#include "core/layout/redistribution/redistribution.h"
#include "core/tensor/shape.h"

namespace tessera {

// Draws up to `most` steps of any kind along any axes, one after another, that CheckPath accepts.
// Splits are in units of 1 to 3, in any nesting; some steps begin in another layout that holds the
// same elements.
std::vector<RedistributionStep> DrawPath(const MeshLayout& from, int most, const TensorType& type,
                                         const Mesh& mesh, std::mt19937& engine);

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TESTING_RANDOM_PATH_H_
