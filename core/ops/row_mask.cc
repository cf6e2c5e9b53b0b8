// Which rows of a tensor are at a position, or up to it. A part of attention_decode.
#include <utility>

#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class RowMaskOp : public ElementwiseOperator {
 public:
  RowMaskOp() : ElementwiseOperator("row_mask", 1) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"position"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Is(0, {DType::kI64, {}}));
    ASSIGN_OR_RETURN(Shape shape, check.ShapeOf("shape"));
    if (shape.empty()) return check.Misfit("shape", "of rank 1 or more");
    RETURN_IF_ERROR(check.Has<bool>("up_to"));
    return std::vector<TensorType>{{DType::kU8, std::move(shape)}};
  }

  bool Differentiable(int input) const override { return false; }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    Attributes result = attributes;
    result.Set("shape", ShapeAttribute(local.outputs[0].shape));
    return result;
  }
};

}  // namespace

const Operator& RowMaskOperator() {
  static const RowMaskOp op;
  return op;
}

Tensor RowMask(Tensor position, const Shape& shape, bool up_to) {
  return RecordSingleOutput(RowMaskOperator(), {position},
                            {{"shape", ShapeAttribute(shape)}, {"up_to", up_to}});
}

}  // namespace tessera
