// For tests of operators: creates types and uses of operators, and gives results as text.
#ifndef TESSERA_CORE_OPS_TESTING_OPERATORS_H_
#define TESSERA_CORE_OPS_TESTING_OPERATORS_H_

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

// Returns the types of the outputs ("f32[2, 3], f32[2]") or the error's message.
std::string Inferred(const Use& use);

// Returns one line for each signature: "S(0), B -> S(0)\n...".
std::string SignaturesOf(const Use& use);

// Returns "" if every signature is correct: given the parts of the inputs and the local attributes,
// the shape rule gives the parts of the outputs. Otherwise returns what does not fit. Tests splits
// into two parts and into more parts than there are elements.
std::string SignatureThatDoesNotFit(const Use& use);

// Returns the message of an error.
std::string MessageOf(const absl::Status& status);

// Returns text like "offset 6 strides [12, 1]", or "none".
std::string ViewOf(const Use& use, int output, const Strides& input_strides);

// Returns one line for each op that was recorded in the backward phase: "name(input types) ->
// types".
std::string BackwardOps(const Graph& graph);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_TESTING_OPERATORS_H_
