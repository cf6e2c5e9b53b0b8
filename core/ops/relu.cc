#include "core/ops/relu.h"

#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class ReluOp : public ElementwiseOperator {
 public:
  ReluOp() : ElementwiseOperator("relu", 1) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    return std::vector<TensorType>{inputs[0]};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(
        0, RecordUse1(ReluGradOperator(), {builder.output_gradient(0), builder.output(0)}));
    return absl::OkStatus();
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

class ReluGradOp : public ElementwiseOperator {
  using Input = ReluGradInput;

 public:
  ReluGradOp() : ElementwiseOperator("relu_grad", 1, {{{sbp::P(), sbp::B()}, {sbp::P()}}}) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "y"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kDy));
    RETURN_IF_ERROR(check.Is(Input::kY, inputs[Input::kDy]));
    return std::vector<TensorType>{inputs[Input::kDy]};
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

}  // namespace

const Operator& ReluOperator() {
  static const ReluOp op;
  return op;
}

const Operator& ReluGradOperator() {
  static const ReluGradOp op;
  return op;
}

Tensor Relu(Tensor x) { return RecordUse1(ReluOperator(), {x}); }

}  // namespace tessera
