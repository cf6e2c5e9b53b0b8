#include "core/ops/gelu.h"

#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

absl::Status CheckApproximate(const InputCheck& check, const Attributes& attributes) {
  RETURN_IF_ERROR(check.Has<std::string>("approximate"));
  const std::string& kind = attributes.GetString("approximate");
  if (kind == "none" || kind == "tanh") return absl::OkStatus();
  return check.Misfit("approximate", "\"none\" or \"tanh\"");
}

class GeluOp : public ElementwiseOperator {
 public:
  GeluOp() : ElementwiseOperator("gelu", 16) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    RETURN_IF_ERROR(CheckApproximate(check, attributes));
    return std::vector<TensorType>{inputs[0]};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(
        0, RecordSingleOutput(GeluGradOperator(), {builder.output_gradient(0), builder.input(0)},
                              builder.attributes()));
    return absl::OkStatus();
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

class GeluGradOp : public ElementwiseOperator {
  using Input = GeluGradInput;

 public:
  GeluGradOp() : ElementwiseOperator("gelu_grad", 24, {{{{sbp::P(), sbp::B()}, {sbp::P()}}}}) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kDy));
    RETURN_IF_ERROR(check.Is(Input::kX, inputs[Input::kDy]));
    RETURN_IF_ERROR(CheckApproximate(check, attributes));
    return std::vector<TensorType>{inputs[Input::kDy]};
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    return {{GeluGradInput::kDy, 0}, {GeluGradInput::kX, 0}};
  }
};

}  // namespace

const Operator& GeluOperator() {
  static const GeluOp op;
  return op;
}

const Operator& GeluGradOperator() {
  static const GeluGradOp op;
  return op;
}

Tensor Gelu(Tensor x, GeluKind kind) {
  return RecordSingleOutput(
      GeluOperator(), {x},
      {{"approximate", std::string(kind == GeluKind::kErf ? "none" : "tanh")}});
}

}  // namespace tessera
