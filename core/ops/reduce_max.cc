#include "core/ops/reduce_max.h"

#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/reduction.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;
using sbp::PMax;
using sbp::S;

class ReduceMaxOp : public ReductionOperator {
 public:
  ReduceMaxOp() : ReductionOperator("reduce_max", PMax()) {}

  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(
        0, RecordSingleOutput(ReduceMaxGradOperator(),
                              {builder.output_gradient(0), builder.input(0), builder.output(0)},
                              builder.attributes()));
    return absl::OkStatus();
  }
};

class ReduceMaxGradOp : public Operator {
  using Input = ReduceMaxGradInput;

 public:
  absl::string_view name() const override { return "reduce_max_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "x", "y"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kX));
    const TensorType& x = inputs[Input::kX];
    RETURN_IF_ERROR(CheckReduction(check, attributes, x.shape));
    const TensorType y{x.dtype, ReducedShape(x.shape, attributes, attributes.GetBool("keep_dims"))};
    RETURN_IF_ERROR(check.Is(Input::kDy, y));
    RETURN_IF_ERROR(check.Is(Input::kY, y));
    return std::vector<TensorType>{x};
  }

  bool IsContinuous() const override { return false; }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 2 * Elements(types.inputs[Input::kX]));
  }

  // A reduced axis cannot be split, because equal elements anywhere on it share the gradient.
  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const std::vector<int> output_dims =
        OutputDims(static_cast<int>(types.inputs[Input::kX].shape.size()), types.attributes);
    std::vector<Signature> signatures;
    for (int d = 0; d < static_cast<int>(output_dims.size()); ++d) {
      if (output_dims[d] < 0) continue;
      signatures.push_back({{S(output_dims[d]), S(d), S(output_dims[d])}, {S(d)}});
    }
    signatures.push_back({{P(), B(), B()}, {P()}});
    return signatures;
  }
};

}  // namespace

const Operator& ReduceMaxOperator() {
  static const ReduceMaxOp op;
  return op;
}

const Operator& ReduceMaxGradOperator() {
  static const ReduceMaxGradOp op;
  return op;
}

Tensor ReduceMax(Tensor x, absl::Span<const int64_t> axes, bool keep_dims) {
  if (axes.empty()) return x;
  return RecordSingleOutput(ReduceMaxOperator(), {x}, ReductionAttributes(x, axes, keep_dims));
}

}  // namespace tessera
