// Operands for kernels that are measured or compared.
#ifndef TESSERA_CORE_COST_KERNEL_TIMES_RANDOM_ELEMENTS_H_
#define TESSERA_CORE_COST_KERNEL_TIMES_RANDOM_ELEMENTS_H_

#include <cstdint>
#include <vector>

#include "core/tensor/dtype.h"

namespace tessera {

// Returns the bytes of `count` elements that look random and are the same on each machine; another
// `seed` returns others. Floating elements are in [-0.25, 0.25), so that exponentials of sums of
// their products do not overflow. Integers are 0, a valid index.
std::vector<char> RandomElements(DType dtype, int64_t count, uint64_t seed = 0);

}  // namespace tessera

#endif  // TESSERA_CORE_COST_KERNEL_TIMES_RANDOM_ELEMENTS_H_
