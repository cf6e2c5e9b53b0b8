#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/picture_check.h"
#include "core/ops/pooling.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::P;
using sbp::S;

// Both operators are linear.
std::vector<Signature> PoolingSignatures() {
  std::vector<Signature> signatures;
  for (const int d : kPoolingDims) signatures.push_back({{S(d)}, {S(d)}});
  signatures.push_back({{P()}, {P()}});
  return signatures;
}

// One addition for each element of a window, and one multiplication.
OpCost WithPoolingFlops(OpCost cost, const TensorType& pooled, const PictureWindows& windows) {
  return WithFlops(cost, Elements(pooled) * static_cast<double>(windows.taps() + 1));
}

class AveragePoolOp : public Operator {
 public:
  absl::string_view name() const override { return "average_pool"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    const TensorType& x = inputs[0];
    RETURN_IF_ERROR(CheckRankFour(check, 0, x, kPictureDims));
    ASSIGN_OR_RETURN(const PictureWindows windows, CheckPoolingWindows(check, attributes, x.shape));
    if (!HasWindows(windows)) return check.Misfit(0, SizesThatFit(windows));
    return std::vector<TensorType>{{x.dtype, PooledShape(x.shape, windows)}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Attributes attributes =
        PoolingGradAttributes(builder.attributes(), builder.input(0).shape());
    builder.SetInputGradient(
        0, RecordSingleOutput(AveragePoolGradOperator(), {builder.output_gradient(0)}, attributes));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithPoolingFlops(Operator::Cost(types), types.outputs[0],
                            PoolingWindows(types.inputs[0].shape, types.attributes));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    return PoolingSignatures();
  }
};

class AveragePoolGradOp : public Operator {
 public:
  absl::string_view name() const override { return "average_pool_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    ASSIGN_OR_RETURN(const Shape x, GradientShape(check, kPictureDims));
    ASSIGN_OR_RETURN(const PictureWindows windows, CheckPoolingWindows(check, attributes, x));
    if (!HasWindows(windows)) return check.Misfit("shape", SizesThatFit(windows));
    RETURN_IF_ERROR(check.Is(0, {inputs[0].dtype, PooledShape(x, windows)}));
    return std::vector<TensorType>{{inputs[0].dtype, x}};
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithPoolingFlops(Operator::Cost(types), types.inputs[0],
                            PoolingWindows(types.outputs[0].shape, types.attributes));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    return PoolingSignatures();
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    return PoolingGradAttributes(attributes, local.outputs[0].shape);
  }
};

}  // namespace

const Operator& AveragePoolOperator() {
  static const AveragePoolOp op;
  return op;
}

const Operator& AveragePoolGradOperator() {
  static const AveragePoolGradOp op;
  return op;
}

Tensor AveragePool(Tensor x, const PoolingOptions& options) {
  return RecordSingleOutput(AveragePoolOperator(), {x}, PoolingAttributes(options));
}

}  // namespace tessera
