// An operator: its shape rule, gradient, cost, layout signatures, and which outputs are views.
//
// There is one object of static lifetime for each operator; all methods are const and thread-safe.
// The kernels that run it are in core/kernels, under the same name.
#ifndef TESSERA_CORE_GRAPH_OPERATOR_H_
#define TESSERA_CORE_GRAPH_OPERATOR_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/attributes.h"
#include "core/layout/layout.h"
#include "core/tensor/shape.h"

namespace tessera {

class GradientBuilder;

// The types of the inputs and outputs of one use of an operator.
struct OpTypes {
  absl::Span<const TensorType> inputs;
  absl::Span<const TensorType> outputs;
  const Attributes& attributes;
};

// The least work of one use of an operator.
struct OpCost {
  double flops = 0;             // multiplications and additions, everything that is computed
  double recomputed_flops = 0;  // the share of them that only repeats earlier work to save memory
  double bytes = 0;             // each input read once, each output written once
};

// The position of an output that is a view within the memory of an input.
struct ViewPlacement {
  int64_t offset = 0;  // elements from the input's first element
  Strides strides;     // elements
};

// The part of an operator's work that one device or micro-batch does.
struct LocalUse {
  absl::Span<const TensorType> inputs;   // local types
  absl::Span<const TensorType> outputs;  // local types
  absl::Span<const Region> input_regions;
  absl::Span<const Region> output_regions;
};

class Operator {
 public:
  virtual ~Operator() = default;

  // Lower case with underscores: "layer_norm". Unique in the list of operators.
  virtual absl::string_view name() const = 0;

  // The shape rule: the outputs' types, or InvalidArgument saying which input or attribute does not
  // fit and what would.
  virtual absl::StatusOr<std::vector<TensorType>> InferTypes(
      absl::Span<const TensorType> inputs, const Attributes& attributes) const = 0;

  // The name of output i below the op's path; "" for an only or main output.
  virtual absl::string_view OutputName(int i) const { return ""; }

  // Records the gradients of the inputs that need one. Unimplemented for operators that are never
  // differentiated (an optimizer's update, another operator's gradient).
  virtual absl::Status Gradient(GradientBuilder& builder) const;
  // False for inputs through which no gradient flows (labels, counts, seeds).
  virtual bool Differentiable(int input) const { return true; }

  // Whether input i has StatisticDType() of the other floating inputs' dtype: a row's statistic, an
  // optimizer's state. What such an input holds is never rounded to 16 bits.
  virtual bool IsStatistic(int input) const { return false; }

  // By default no arithmetic, and every input and output moved once.
  virtual OpCost Cost(const OpTypes& types) const;

  // Every combination of layouts along one axis that can be computed with no communication. All-B
  // need not be named: it always holds.
  virtual std::vector<Signature> Signatures(const OpTypes& types) const { return {}; }

  // The attributes with which one device or micro-batch computes its part of the outputs: a shape
  // that is an attribute becomes the local one, a random draw gets the region of the global tensor
  // that it makes, an embedding the rows of the table that it holds.
  virtual Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const {
    return attributes;
  }

  // Whether it is computed although an input has no elements, on a rank that holds none: others
  // may have some. If not, its outputs get what changes nothing in their reduction.
  virtual bool TakesEmptyInputs() const { return false; }

  // For an operator whose outputs are parts of input 0's memory (reshape, transpose, split,
  // expand): the position of output i if the input has these strides; nullopt if strides cannot
  // express it. An operator with is_view() has no kernel.
  virtual bool is_view() const { return false; }
  virtual std::optional<ViewPlacement> View(const OpTypes& types, int output,
                                            const Strides& input_strides) const {
    return std::nullopt;
  }
  // For an operator whose inputs are parts of output 0's memory (concat): the position of input i
  // in a row-major output. An operator with is_assembly() has no kernel: its inputs are written in
  // place, or copied there.
  virtual bool is_assembly() const { return false; }
  virtual ViewPlacement Part(const OpTypes& types, int input) const { return {}; }

  // Pairs (input, output) of the same type: every kernel must be correct if the output has the
  // address of the input.
  virtual std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const { return {}; }
};

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_OPERATOR_H_
