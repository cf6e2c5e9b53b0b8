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
