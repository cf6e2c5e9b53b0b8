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
    // A copy: recording moves what a handle's shape() refers to.
    const Shape shape = builder.input(0).shape();
    const std::vector<int64_t>& axes = builder.attributes().GetInts("axes");
    const bool leading = axes.back() + 1 == static_cast<int64_t>(axes.size());
    Tensor dy = builder.output_gradient(0);
    // Broadcasting by itself supplies leading dimensions only.
    if (!leading && !builder.attributes().GetBool("keep_dims")) {
      dy = Reshape(dy, ReducedShape(shape, builder.attributes(), /*keep_dims=*/true));
    }
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
    signatures.reserve(output_dims.size() + 1);
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
