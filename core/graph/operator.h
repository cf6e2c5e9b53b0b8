// An operator: its shape rule, gradient, cost, layout signatures, and views.
//
// There is one object of static lifetime for each operator; all methods are const and thread-safe.
// The kernels that run an operator are in core/kernels, under the same name.
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
class Tensor;

// The types of the inputs and outputs of one use of an operator.
struct OpTypes {
  absl::Span<const TensorType> inputs;
  absl::Span<const TensorType> outputs;
  const Attributes& attributes;
};

// The minimal work of one use of an operator.
struct OpCost {
  double flops = 0;             // all multiplications and additions that are computed
  double recomputed_flops = 0;  // the share that repeats earlier work to save memory
  double bytes = 0;             // each input read once, each output written once
};

// The position of a view in the memory of the tensor that it is a view of.
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

  // Returns the name in lower case with underscores ("layer_norm"). Unique in the list of
  // operators.
  virtual absl::string_view name() const = 0;

  // The shape rule. Returns the types of the outputs, or InvalidArgument that says which input or
  // attribute does not fit, and what would fit.
  virtual absl::StatusOr<std::vector<TensorType>> InferTypes(
      absl::Span<const TensorType> inputs, const Attributes& attributes) const = 0;

  // Returns the name of output i below the op's path; "" for the only or main output.
  virtual absl::string_view OutputName(int i) const { return ""; }

  // Records the gradients of the inputs that need one. Unimplemented for operators that are never
  // differentiated (an optimizer's update, or the gradient of another operator).
  virtual absl::Status Gradient(GradientBuilder& builder) const;
  // Returns false for inputs through which no gradient flows (labels, counts, seeds).
  virtual bool Differentiable(int input) const { return true; }

  // Returns whether input i is a statistic of a row, the weight or bias of a batch norm, or an
  // optimizer's state. Its dtype is StatisticDType() of the dtype of the other floating inputs, so
  // it is never rounded to 16 bits.
  virtual bool IsStatistic(int input) const { return false; }

  // Returns false if outputs jump where inputs pass certain values, as the gradient of relu does:
  // the outputs of inputs next to a jump differ by much if these are rounded otherwise.
  virtual bool IsContinuous() const { return true; }

  // Returns the cost. By default there is no arithmetic, and every input and output is moved once.
  virtual OpCost Cost(const OpTypes& types) const;

  // Returns the combinations of layouts along one axis that can be computed without communication.
  // B for all operands is always possible and need not be listed.
  virtual std::vector<Signature> Signatures(const OpTypes& types) const { return {}; }

  // Returns further combinations that are chosen only where a Plan states them (and for gradients
  // of operators in parts): those that keep partial maxima, minima and log-sum-exps, which are as a
  // rule completed where they are first read, and those in parts (Signature::in_parts).
  virtual std::vector<Signature> StatedSignatures(const OpTypes& types) const { return {}; }
  // Returns all that a Plan may state: Signatures(), then StatedSignatures().
  std::vector<Signature> AllSignatures(const OpTypes& types) const;
  // Records the operators of which this one is made in parts, given its inputs (one or more), and
  // returns its outputs. They compute the same values, up to rounding. Where partial results pass
  // from one to another, ranks complete them. Only for operators that have signatures in parts.
  virtual std::vector<Tensor> RecordInParts(absl::Span<const Tensor> inputs,
                                            const Attributes& attributes) const;

  // Returns the attributes with which one device or micro-batch computes its part of the outputs.
  // For example, a shape becomes the local shape, a random draw gets the region of the global
  // tensor that it fills, and an embedding gets the rows of the table that the device holds.
  virtual Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const {
    return attributes;
  }

  // Returns InvalidArgument if the operator may not read its inputs in so many equal micro-batches,
  // because it computes something from more rows together. The message says how many it could read
  // them in; the operator's name is added to it.
  virtual absl::Status CheckMicroBatches(const OpTypes& types, int64_t micro_batches) const {
    return absl::OkStatus();
  }

  // Returns whether the operator runs on a rank whose part of an input is empty, because other
  // ranks may hold elements of it. If not, its outputs are set to the identity of their reduction
  // there.
  virtual bool TakesEmptyInputs() const { return false; }

  // A view operator: its outputs are parts of input 0's memory (reshape, transpose, split, expand),
  // and it has no kernel. View() returns the position of output i if the input has these strides;
  // nullopt if strides cannot express it.
  virtual bool is_view() const { return false; }
  virtual std::optional<ViewPlacement> View(const OpTypes& types, int output,
                                            const Strides& input_strides) const {
    return std::nullopt;
  }
  // An assembly: its inputs are parts of output 0's memory (concat), and it has no kernel. Its
  // inputs are written in place, or copied there. Part() returns the position of an input in a
  // row-major output.
  virtual bool is_assembly() const { return false; }
  virtual ViewPlacement Part(const OpTypes& types, int input) const { return {}; }

  // Returns pairs (input, output) of the same type for which every kernel must be correct if the
  // output is at the address of the input.
  virtual std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const { return {}; }
};

}  // namespace tessera

#endif  // TESSERA_CORE_GRAPH_OPERATOR_H_
