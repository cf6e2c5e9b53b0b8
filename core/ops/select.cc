#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;

class SelectOp : public ElementwiseOperator {
 public:
  SelectOp() : ElementwiseOperator("select", 1, {{{B(), P(), P()}, {P()}}}) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"condition", "a", "b"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    if (inputs[0].dtype != DType::kU8) return check.Misfit(0, "u8");
    RETURN_IF_ERROR(check.SameDType(2, 1));
    ASSIGN_OR_RETURN(Shape shape, check.BroadcastShape());
    return std::vector<TensorType>{{inputs[1].dtype, std::move(shape)}};
  }

  bool Differentiable(int input) const override { return input > 0; }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Tensor condition = builder.input(0), dy = builder.output_gradient(0);
    const Tensor zero = Fill(builder.graph(), {dy.dtype(), {}}, 0);
    if (builder.needed(1)) {
      builder.SetInputGradient(1,
                               SumToShape(Select(condition, dy, zero), builder.input(1).shape()));
    }
    if (builder.needed(2)) {
      builder.SetInputGradient(2,
                               SumToShape(Select(condition, zero, dy), builder.input(2).shape()));
    }
    return absl::OkStatus();
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    std::vector<std::pair<int, int>> pairs;
    for (int i = 1; i <= 2; ++i) {
      if (types.inputs[i] == types.outputs[0]) pairs.emplace_back(i, 0);
    }
    return pairs;
  }
};

}  // namespace

const Operator& SelectOperator() {
  static const SelectOp op;
  return op;
}

Tensor Select(Tensor condition, Tensor a, Tensor b) {
  return RecordUse1(SelectOperator(), {condition, a, b});
}

}  // namespace tessera
