// What the reductions over axes have in common: their attributes `axes` (strictly increasing) and
// `keep_dims`.
#ifndef TESSERA_CORE_OPS_REDUCTION_H_
#define TESSERA_CORE_OPS_REDUCTION_H_

#include <vector>

#include "core/graph/graph.h"
#include "core/ops/input_check.h"

namespace tessera {

absl::Status CheckReduction(const InputCheck& check, const Attributes& attributes,
                            const Shape& shape);

// `shape` without the reduced axes, or with size 1 there if `keep_dims`.
Shape ReducedShape(const Shape& shape, const Attributes& attributes, bool keep_dims);

// For each dimension of the input its dimension of the output; -1 for one that is reduced.
std::vector<int> OutputDims(int rank, const Attributes& attributes);

// The attributes of a reduction of x; negative axes count from the last.
Attributes ReductionAttributes(Tensor x, absl::Span<const int64_t> axes, bool keep_dims);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_REDUCTION_H_
