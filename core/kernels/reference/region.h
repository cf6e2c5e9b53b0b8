// The elements of a global tensor that a random draw makes.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_REGION_H_
#define TESSERA_CORE_KERNELS_REFERENCE_REGION_H_

#include <cstdint>

#include "core/kernels/interface/random_draw.h"
#include "core/tensor/shape.h"

namespace tessera::reference {

// The index in the global tensor of a part's element [i, j, ...] is
// first + i * strides[0] + j * strides[1] + ...
struct GlobalIndices {
  int64_t first = 0;
  Strides strides;
};

inline GlobalIndices IndicesInGlobal(const RandomDraw& draw) {
  return {FirstIndex(draw), RowMajorStrides(draw.global)};
}

}  // namespace tessera::reference

#endif  // TESSERA_CORE_KERNELS_REFERENCE_REGION_H_
