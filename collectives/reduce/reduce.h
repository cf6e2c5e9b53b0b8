// The arithmetic of collectives: reduces the inputs of the ranks of a group, element by element.
//
// The order is that of a binary tree over the ranks in order, whose left part is the largest power
// of two below their number; for five, ((0 + 1) + (2 + 3)) + 4. It depends on neither an element's
// position nor the number of elements, so that all-reduce and reduce-scatter, however a buffer is
// split, give the same bits. bf16 and fp16 are reduced in fp32 and rounded once, to nearest even.
// Integers wrap. The maximum of a NaN and anything is NaN.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_REDUCE_REDUCE_H_
#define TESSERA_COLLECTIVES_REDUCE_REDUCE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/tensor/collective.h"
#include "core/tensor/dtype.h"

namespace tessera::comm {

// inputs[r] has `count` elements of rank r; at least one rank. Every output gets the result, and
// may be the very memory of an input, but not overlap one otherwise. `non_temporal`: the data are
// too large to be found in a cache, before or afterwards; unless an output is an input,
// non-temporal stores write it.
void Reduce(absl::Span<const void* const> inputs, absl::Span<void* const> outputs, int64_t count,
            DType dtype, Reduction reduction, bool non_temporal = false);

// A part of a reduction that goes on elsewhere: bf16 and fp16 are left in fp32. `output` is none of
// the inputs.
void ReducePartially(absl::Span<const void* const> inputs, void* output, int64_t count, DType dtype,
                     Reduction reduction);
// The type of what it leaves.
DType PartialDType(DType dtype);
// Rounds what is left in fp32 to bf16 or fp16; others are copied, if they are not there.
void Finish(const void* partial, int64_t count, DType dtype, void* output);

// Copies data that are too large to be found in a cache afterwards, with non-temporal stores.
void CopyNonTemporal(void* to, const void* from, int64_t bytes);

// The number of ranks in the left part of the tree of `count` ranks, which are at least two.
int LeftRanks(int count);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_REDUCE_REDUCE_H_
