#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class CastOp : public ElementwiseOperator {
 public:
  CastOp() : ElementwiseOperator("cast", 1) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Has<DType>("dtype"));
    if (attributes.Has("terms")) RETURN_IF_ERROR(check.Has<bool>("terms"));
    return std::vector<TensorType>{{attributes.GetDType("dtype"), inputs[0].shape}};
  }

  // Casts between floating types only; autograd requests no other gradients.
  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(0, Cast(builder.output_gradient(0), builder.input(0).dtype()));
    return absl::OkStatus();
  }

  // A partial sum stays partial only if every value keeps its bits: rounding the terms differs from
  // rounding their sum, and truncation to integers is not linear. The attribute `terms` overrides
  // this.
  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures = SplitEveryDim(types);
    const DType from = types.inputs[0].dtype, to = types.outputs[0].dtype;
    const bool exact =
        from == to || (IsFloating(from) && IsFloating(to) && SizeOf(to) > SizeOf(from));
    const bool said = types.attributes.Has("terms");
    const bool meant = said && types.attributes.GetBool("terms") && IsFloating(from);
    if (said ? meant && IsFloating(to) : exact) signatures.push_back({{sbp::P()}, {sbp::P()}});
    return signatures;
  }

  // Rounding and truncation keep the order of values, unless they wrap around.
  std::vector<Signature> StatedSignatures(const OpTypes& types) const override {
    const DType from = types.inputs[0].dtype, to = types.outputs[0].dtype;
    const bool keeps_order = IsFloating(to) || (IsFloating(from) && to != DType::kU8);
    return keeps_order ? OfIncreasing() : std::vector<Signature>();
  }
};

}  // namespace

const Operator& CastOperator() {
  static const CastOp op;
  return op;
}

Tensor Cast(Tensor x, DType dtype) {
  return RecordSingleOutput(CastOperator(), {x}, {{"dtype", dtype}});
}

}  // namespace tessera
