// Functions with which ops.h and the gradients of operators record operators on the Graph of the
// first valid input, and make their attributes.
#ifndef TESSERA_CORE_OPS_RECORDING_H_
#define TESSERA_CORE_OPS_RECORDING_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/graph/graph.h"

namespace tessera {

// Records an operator like Graph::Record, but returns at least `outputs` handles. All are invalid
// if the operands do not fit or an input is invalid.
inline std::vector<Tensor> RecordOperator(const Operator& kind, absl::Span<const Tensor> inputs,
                                          Attributes attributes = {}, size_t outputs = 1) {
  std::vector<Tensor> result;
  for (const Tensor& input : inputs) {
    if (!input.valid()) continue;
    result = input.graph()->Record(kind, inputs, std::move(attributes));
    break;
  }
  if (result.size() < outputs) result.resize(outputs);
  return result;
}

// Records an operator that has one output, and returns the output.
inline Tensor RecordSingleOutput(const Operator& kind, absl::Span<const Tensor> inputs,
                                 Attributes attributes = {}) {
  return RecordOperator(kind, inputs, std::move(attributes))[0];
}

// Returns a shape as the value of an attribute.
inline std::vector<int64_t> ShapeAttribute(absl::Span<const int64_t> shape) {
  return {shape.begin(), shape.end()};
}

// Returns `axis` if it is not negative; a negative axis counts from the last dimension.
inline int64_t NonNegativeAxis(int64_t axis, int rank) { return axis < 0 ? axis + rank : axis; }

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_RECORDING_H_
