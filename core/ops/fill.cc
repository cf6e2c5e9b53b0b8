#include <utility>

#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class FillOp : public ElementwiseOperator {
 public:
  FillOp() : ElementwiseOperator("fill", 0) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    if (!inputs.empty()) return absl::InvalidArgumentError("it takes no inputs");
    const InputCheck check({}, inputs, attributes);
    ASSIGN_OR_RETURN(Shape shape, check.ShapeOf("shape"));
    RETURN_IF_ERROR(check.Has<DType>("dtype"));
    RETURN_IF_ERROR(check.Has<double>("value"));
    return std::vector<TensorType>{{attributes.GetDType("dtype"), std::move(shape)}};
  }

  // If the value is 0, zeros on every device add up to zeros.
  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures = SplitEveryDim(types);
    if (types.attributes.GetDouble("value") == 0) signatures.push_back({{}, {sbp::P()}});
    return signatures;
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    const Shape& shape = local.outputs[0].shape;
    Attributes result = attributes;
    result.Set("shape", ShapeAttribute(shape));
    return result;
  }
};

}  // namespace

const Operator& FillOperator() {
  static const FillOp op;
  return op;
}

Tensor Fill(Graph& graph, const TensorType& type, double value) {
  return graph.Record1(
      FillOperator(), {},
      {{"shape", ShapeAttribute(type.shape)}, {"dtype", type.dtype}, {"value", value}});
}

}  // namespace tessera
