#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class CopyOp : public ElementwiseOperator {
 public:
  CopyOp() : ElementwiseOperator("copy", 0) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    return std::vector<TensorType>{inputs[0]};
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    return WithPartial(SplitEveryDim(types), types);
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(0, builder.output_gradient(0));
    return absl::OkStatus();
  }
};

}  // namespace

const Operator& CopyOperator() {
  static const CopyOp op;
  return op;
}

Tensor Copy(Tensor x) { return RecordSingleOutput(CopyOperator(), {x}); }

}  // namespace tessera
