#include "core/ops/dropout.h"

#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/random_draw.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;

class DropoutOp : public ElementwiseOperator {
  using Input = DropoutInput;

 public:
  // Linear in x: the mask depends on the position of an element, not on its value.
  DropoutOp() : ElementwiseOperator("dropout", 12, {{{{P(), B(), B()}, {P()}}}}) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x", "seed", "step"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kX));
    RETURN_IF_ERROR(check.Is(Input::kSeed, {DType::kI64, {}}));
    RETURN_IF_ERROR(check.Is(Input::kStep, {DType::kI64, {}}));
    RETURN_IF_ERROR(check.Has<double>("probability"));
    const double probability = attributes.GetDouble("probability");
    if (!(probability >= 0 && probability < 1)) {
      return check.Misfit("probability", "at least 0 and less than 1");
    }
    RETURN_IF_ERROR(CheckDraw(check, attributes, inputs[Input::kX].shape));
    return std::vector<TensorType>{inputs[Input::kX]};
  }

  bool Differentiable(int input) const override { return input == Input::kX; }

  // Applies the same mask to dy.
  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(
        Input::kX, RecordSingleOutput(*this,
                                      {builder.output_gradient(0), builder.input(Input::kSeed),
                                       builder.input(Input::kStep)},
                                      builder.attributes()));
    return absl::OkStatus();
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    return WithDrawnRegion(attributes, local.outputs[0].shape, local.output_regions[0]);
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

}  // namespace

const Operator& DropoutOperator() {
  static const DropoutOp op;
  return op;
}

Tensor Dropout(Tensor x, double probability) {
  return RecordDraw(DropoutOperator(), x, {{"probability", probability}});
}

}  // namespace tessera
