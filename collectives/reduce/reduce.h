// The arithmetic of collectives: reduces the inputs of the ranks of a group, element by element.
//
// The order is a binary tree over the ranks in order. Its left subtree has the largest power of two
// below the number of ranks; for five, ((0 + 1) + (2 + 3)) + 4. The order depends on neither an
// element's position nor the number of elements, so all-reduce and reduce-scatter give the same
// bits however a buffer is split. bf16 and fp16 are reduced in fp32 and rounded once, to nearest
// even. Integers wrap. The maximum of a NaN and anything is NaN.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_REDUCE_REDUCE_H_
#define TESSERA_COLLECTIVES_REDUCE_REDUCE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/tensor/collective.h"
#include "core/tensor/dtype.h"

namespace tessera::comm {

// Writes the reduction of all inputs to every output. inputs[r] has `count` elements of rank r;
// there is at least one rank. An output may be exactly the memory of an input, but must not overlap
// one otherwise. `non_temporal`: the data are too large for the caches, before and afterwards;
// outputs that are not inputs may be written with non-temporal stores.
void Reduce(absl::Span<const void* const> inputs, absl::Span<void* const> outputs, int64_t count,
            DType dtype, Reduction reduction, bool non_temporal = false);

// The same for one step of a reduction that is continued elsewhere: the output of bf16 and fp16 is
// fp32. `output` must not be one of the inputs.
void ReducePartially(absl::Span<const void* const> inputs, void* output, int64_t count, DType dtype,
                     Reduction reduction);
// Returns the type of its output for inputs of `dtype`.
DType PartialDType(DType dtype);
// Rounds the fp32 result of ReducePartially to bf16 or fp16. Other types are copied, unless
// `output` is `partial`.
void Finish(const void* partial, int64_t count, DType dtype, void* output);

// Copies data that are too large to be found in a cache afterwards, with non-temporal stores.
void CopyNonTemporal(void* to, const void* from, int64_t bytes);

// Returns the number of ranks in the left subtree of `count` ranks; `count` is at least two.
int LeftRanks(int count);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_REDUCE_REDUCE_H_
