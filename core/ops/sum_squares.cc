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

class SumSquaresOp : public Operator {
 public:
  absl::string_view name() const override { return "sum_squares"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    return std::vector<TensorType>{{StatisticDType(inputs[0].dtype), {}}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    Tensor factor = Scale(builder.output_gradient(0), 2);
    if (factor.dtype() != builder.input(0).dtype()) {
      factor = Cast(factor, builder.input(0).dtype());
    }
    builder.SetInputGradient(0, Multiply(builder.input(0), factor));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 2 * Elements(types.inputs[0]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int rank = static_cast<int>(types.inputs[0].shape.size());
    std::vector<Signature> signatures;
    signatures.reserve(rank);
    for (int d = 0; d < rank; ++d) signatures.push_back({{sbp::S(d)}, {sbp::P()}});
    return signatures;
  }
};

}  // namespace

const Operator& SumSquaresOperator() {
  static const SumSquaresOp op;
  return op;
}

Tensor SumSquares(Tensor x) { return RecordSingleOutput(SumSquaresOperator(), {x}); }

}  // namespace tessera
