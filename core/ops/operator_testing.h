// Short forms for the tests of operators: types written as text, and results given as text.
#ifndef TESSERA_CORE_OPS_OPERATOR_TESTING_H_
#define TESSERA_CORE_OPS_OPERATOR_TESTING_H_

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/operator_list.h"

namespace tessera {

TensorType F32(const Shape& shape);
TensorType I32(const Shape& shape);
TensorType I64(const Shape& shape);
TensorType U8(const Shape& shape);

// A use of the operator `name` on inputs of these types. `name` must be in the list.
struct Use {
  Use(absl::string_view name, std::vector<TensorType> inputs, Attributes attributes = {});

  OpTypes types() const { return {inputs, outputs, attributes}; }

  const Operator* kind;
  std::vector<TensorType> inputs;
  Attributes attributes;
  absl::Status status;  // of the shape rule
  std::vector<TensorType> outputs;
};

// The outputs' types, "f32[2, 3], f32[2]", or the error's message.
std::string Inferred(const Use& use);

// One line for each signature: "S(0), B -> S(0)\n...".
std::string SignaturesOf(const Use& use);

// "" if for every signature the shape rule, given the parts of the inputs and the local attributes,
// gives the parts of the outputs; else what does not fit. Splits into two and into more parts than
// there are elements.
std::string SignatureThatDoesNotFit(const Use& use);

// The message of an error.
std::string MessageOf(const absl::Status& status);

// "offset 6 strides [12, 1]" or "none".
std::string ViewOf(const Use& use, int output, const Strides& input_strides);

// One line for each op that was recorded in the backward phase: "name(types of inputs) -> types".
std::string BackwardOps(const Graph& graph);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_OPERATOR_TESTING_H_
