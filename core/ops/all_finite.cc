#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Parts would combine by a logical and, which no layout expresses: it needs every input completely.
class AllFiniteOp : public Operator {
 public:
  absl::string_view name() const override { return "all_finite"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) RETURN_IF_ERROR(check.Floating(i));
    return std::vector<TensorType>{{DType::kU8, {}}};
  }

  bool Differentiable(int input) const override { return false; }

  OpCost Cost(const OpTypes& types) const override {
    double elements = 0;
    for (const TensorType& input : types.inputs) elements += Elements(input);
    return WithFlops(Operator::Cost(types), elements);
  }
};

}  // namespace

const Operator& AllFiniteOperator() {
  static const AllFiniteOp op;
  return op;
}

Tensor AllFinite(absl::Span<const Tensor> values) {
  return RecordUse1(AllFiniteOperator(), values);
}

}  // namespace tessera
