// The position of the input of zero_elsewhere in its output.
#ifndef TESSERA_CORE_OPS_ZERO_ELSEWHERE_H_
#define TESSERA_CORE_OPS_ZERO_ELSEWHERE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "core/layout/layout.h"
#include "core/tensor/shape.h"

namespace tessera {

// Returns the index in the output of the input's first element. The regions of a call say which
// part of one global tensor each is; without regions they begin together.
inline Shape StartInOutput(absl::Span<const Region> inputs, absl::Span<const Region> outputs,
                           size_t rank) {
  Shape start(rank, 0);
  if (inputs.empty()) return start;
  for (size_t d = 0; d < rank; ++d) start[d] = inputs[0].start[d] - outputs[0].start[d];
  return start;
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_ZERO_ELSEWHERE_H_
