// The elements of a global tensor that a random draw makes.
#ifndef TESSERA_CORE_KERNELS_REFERENCE_REGION_H_
#define TESSERA_CORE_KERNELS_REFERENCE_REGION_H_

#include <cstdint>
#include <vector>

#include "core/graph/attributes.h"
#include "core/tensor/shape.h"

namespace tessera::reference {

// The index in the global tensor of a part's element [i, j, ...] is
// first + i * strides[0] + j * strides[1] + ...
struct GlobalIndices {
  int64_t first = 0;
  Strides strides;
};

// Reads the region from the attributes `start` and `whole`. Without them, a tensor of shape `shape`
// is the global one.
inline GlobalIndices IndicesInGlobal(const Attributes& attributes, const Shape& shape) {
  if (!attributes.Has("whole")) return {0, RowMajorStrides(shape)};
  GlobalIndices indices{0, RowMajorStrides(attributes.GetInts("whole"))};
  const std::vector<int64_t>& start = attributes.GetInts("start");
  for (size_t d = 0; d < start.size(); ++d) indices.first += start[d] * indices.strides[d];
  return indices;
}

}  // namespace tessera::reference

#endif  // TESSERA_CORE_KERNELS_REFERENCE_REGION_H_
