#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/reduction.h"
#include "core/ops/signatures.h"

namespace tessera {
namespace {

using sbp::P;
using sbp::S;

class ReduceSumOp : public Operator {
 public:
  absl::string_view name() const override { return "reduce_sum"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    RETURN_IF_ERROR(CheckReduction(check, attributes, inputs[0].shape));
    return std::vector<TensorType>{
        {inputs[0].dtype,
         ReducedShape(inputs[0].shape, attributes, attributes.GetBool("keep_dims"))}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Shape& shape = builder.input(0).shape();
    const Shape kept = ReducedShape(shape, builder.attributes(), /*keep_dims=*/true);
    Tensor dy = builder.output_gradient(0);
    if (dy.shape() != kept) dy = Reshape(dy, kept);
    builder.SetInputGradient(0, Expand(dy, shape));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), Elements(types.inputs[0]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const std::vector<int> output_dims =
        OutputDims(static_cast<int>(types.inputs[0].shape.size()), types.attributes);
    std::vector<Signature> signatures;
    for (int d = 0; d < static_cast<int>(output_dims.size()); ++d) {
      signatures.push_back({{S(d)}, {output_dims[d] < 0 ? P() : S(output_dims[d])}});
    }
    signatures.push_back({{P()}, {P()}});
    return signatures;
  }
};

}  // namespace

const Operator& ReduceSumOperator() {
  static const ReduceSumOp op;
  return op;
}

Tensor ReduceSum(Tensor x, absl::Span<const int64_t> axes, bool keep_dims) {
  if (axes.empty()) return x;
  return RecordUse1(ReduceSumOperator(), {x}, ReductionAttributes(x, axes, keep_dims));
}

}  // namespace tessera
