#include "core/ops/relu.h"

#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/unary.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

Tensor ReluGradient(Tensor dy, Tensor x, Tensor y) {
  return RecordSingleOutput(ReluGradOperator(), {dy, y});
}

class ReluGradOp : public ElementwiseOperator {
  using Input = ReluGradInput;

 public:
  ReluGradOp() : ElementwiseOperator("relu_grad", 1, {{{{sbp::P(), sbp::B()}, {sbp::P()}}}}) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "y"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kDy));
    RETURN_IF_ERROR(check.Is(Input::kY, inputs[Input::kDy]));
    return std::vector<TensorType>{inputs[Input::kDy]};
  }

  bool IsContinuous() const override { return false; }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

}  // namespace

const Operator& ReluOperator() {
  static const UnaryOperator op("relu", 1, ReluGradient, {{}, OfIncreasing()});
  return op;
}

const Operator& ReluGradOperator() {
  static const ReluGradOp op;
  return op;
}

Tensor Relu(Tensor x) { return RecordSingleOutput(ReluOperator(), {x}); }

}  // namespace tessera
