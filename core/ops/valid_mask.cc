#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class ValidMaskOp : public ElementwiseOperator {
 public:
  ValidMaskOp() : ElementwiseOperator("valid_mask", 1) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"labels"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    if (inputs[0].dtype != DType::kI32) return check.Misfit(0, "i32");
    RETURN_IF_ERROR(check.Has<int64_t>("ignore_index"));
    RETURN_IF_ERROR(check.Has<DType>("dtype"));
    const DType dtype = attributes.GetDType("dtype");
    if (!IsFloating(dtype)) return check.Misfit("dtype", "floating");
    return std::vector<TensorType>{{dtype, inputs[0].shape}};
  }

  bool Differentiable(int input) const override { return false; }
};

}  // namespace

const Operator& ValidMaskOperator() {
  static const ValidMaskOp op;
  return op;
}

Tensor ValidMask(Tensor labels, int64_t ignore_index) {
  return RecordSingleOutput(ValidMaskOperator(), {labels},
                            {{"ignore_index", ignore_index}, {"dtype", DType::kF32}});
}

}  // namespace tessera
