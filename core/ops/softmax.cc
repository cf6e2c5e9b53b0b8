#include "core/ops/softmax.h"

#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Every dimension except the axis may be split, because a part needs complete rows.
std::vector<Signature> SplitRows(const OpTypes& types) {
  std::vector<Signature> signatures = SplitEveryDim(types);
  signatures.erase(signatures.begin() + types.attributes.GetInt("axis"));
  return signatures;
}

// Along the axis itself, the maxima and sums of rows are completed between parts.
std::vector<Signature> SplitAlongAxis(const OpTypes& types) {
  const AxisLayout split = sbp::S(static_cast<int>(types.attributes.GetInt("axis")));
  return {{std::vector<AxisLayout>(types.inputs.size(), split), {split}, /*in_parts=*/true}};
}

// Returns `x` in the dtype of a row's statistics.
Tensor AsStatistic(Tensor x) { return InDType(x, StatisticDType(x.dtype())); }

class SoftmaxOp : public Operator {
 public:
  absl::string_view name() const override { return "softmax"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    RETURN_IF_ERROR(check.MinRank(0, 1));
    RETURN_IF_ERROR(check.IntIn("axis", 0, static_cast<int64_t>(inputs[0].shape.size())));
    return std::vector<TensorType>{inputs[0]};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(0, RecordSingleOutput(SoftmaxGradOperator(),
                                                   {builder.output_gradient(0), builder.output(0)},
                                                   builder.attributes()));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 12 * Elements(types.outputs[0]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    return SplitRows(types);
  }

  std::vector<Signature> StatedSignatures(const OpTypes& types) const override {
    return SplitAlongAxis(types);
  }

  std::vector<Tensor> RecordInParts(absl::Span<const Tensor> inputs,
                                    const Attributes& attributes) const override {
    const int64_t axis = attributes.GetInt("axis");
    const Tensor x = AsStatistic(inputs[0]);
    const Tensor maximum = ReduceMax(x, {axis}, /*keep_dims=*/true);
    const Tensor powers = Exp(Subtract(x, maximum));
    const Tensor sum = ReduceSum(powers, {axis}, /*keep_dims=*/true);
    return {InDType(Divide(powers, sum), inputs[0].dtype())};
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

class SoftmaxGradOp : public Operator {
  using Input = SoftmaxGradInput;

 public:
  absl::string_view name() const override { return "softmax_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "y"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kDy));
    RETURN_IF_ERROR(check.MinRank(Input::kDy, 1));
    RETURN_IF_ERROR(check.Is(Input::kY, inputs[Input::kDy]));
    RETURN_IF_ERROR(check.IntIn("axis", 0, static_cast<int64_t>(inputs[Input::kDy].shape.size())));
    return std::vector<TensorType>{inputs[Input::kDy]};
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 4 * Elements(types.outputs[0]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures = SplitRows(types);
    signatures.push_back({{sbp::P(), sbp::B()}, {sbp::P()}});
    return signatures;
  }

  std::vector<Signature> StatedSignatures(const OpTypes& types) const override {
    return SplitAlongAxis(types);
  }

  // dx = y * (dy - the row's sum of dy * y).
  std::vector<Tensor> RecordInParts(absl::Span<const Tensor> inputs,
                                    const Attributes& attributes) const override {
    const Tensor dy = AsStatistic(inputs[Input::kDy]), y = AsStatistic(inputs[Input::kY]);
    const Tensor products = Multiply(dy, y);
    const Tensor sum = ReduceSum(products, {attributes.GetInt("axis")}, /*keep_dims=*/true);
    const Tensor change = Subtract(dy, sum);
    return {InDType(Multiply(change, y), inputs[Input::kDy].dtype())};
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    return {{SoftmaxGradInput::kDy, 0}, {SoftmaxGradInput::kY, 0}};
  }
};

}  // namespace

const Operator& SoftmaxOperator() {
  static const SoftmaxOp op;
  return op;
}

const Operator& SoftmaxGradOperator() {
  static const SoftmaxGradOp op;
  return op;
}

Tensor Softmax(Tensor x, int axis) {
  return RecordSingleOutput(SoftmaxOperator(), {x}, {{"axis", NonNegativeAxis(axis, x.rank())}});
}

}  // namespace tessera
