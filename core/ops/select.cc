#include "core/ops/select.h"

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
using sbp::PLse;
using sbp::PMax;
using sbp::PMin;

class SelectOp : public ElementwiseOperator {
  using Input = SelectInput;

 public:
  SelectOp()
      : ElementwiseOperator("select", 1,
                            {{{{B(), P(), P()}, {P()}}},
                             {{{B(), PMax(), PMax()}, {PMax()}}, {{B(), PMin(), PMin()}, {PMin()}}},
                             {{{B(), PLse(), PLse()}, {PLse()}}}}) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"condition", "a", "b"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    if (inputs[Input::kCondition].dtype != DType::kU8) return check.Misfit(Input::kCondition, "u8");
    RETURN_IF_ERROR(check.SameDType(Input::kB, Input::kA));
    ASSIGN_OR_RETURN(Shape shape, check.BroadcastShape());
    return std::vector<TensorType>{{inputs[Input::kA].dtype, std::move(shape)}};
  }

  bool Differentiable(int input) const override { return input != Input::kCondition; }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Tensor condition = builder.input(Input::kCondition), dy = builder.output_gradient(0);
    const Tensor zero = Fill(builder.graph(), {dy.dtype(), {}}, 0);
    if (builder.needed(Input::kA)) {
      builder.SetInputGradient(
          Input::kA, SumToShape(Select(condition, dy, zero), builder.input(Input::kA).shape()));
    }
    if (builder.needed(Input::kB)) {
      builder.SetInputGradient(
          Input::kB, SumToShape(Select(condition, zero, dy), builder.input(Input::kB).shape()));
    }
    return absl::OkStatus();
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    std::vector<std::pair<int, int>> pairs;
    for (int i : {Input::kA, Input::kB}) {
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
  return RecordSingleOutput(SelectOperator(), {condition, a, b});
}

}  // namespace tessera
