#include <utility>

#include "absl/strings/str_cat.h"
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

class ExpandOp : public Operator {
 public:
  absl::string_view name() const override { return "expand"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(Shape shape, check.ShapeOf("shape"));
    const Shape& x = inputs[0].shape;
    bool is_broadcast_of_x = shape.size() >= x.size();
    for (size_t i = 0; is_broadcast_of_x && i < x.size(); ++i) {
      is_broadcast_of_x = x[i] == 1 || x[i] == shape[shape.size() - x.size() + i];
    }
    if (!is_broadcast_of_x) {
      return check.Misfit("shape", absl::StrCat("a shape that ", TypeToString(inputs[0]),
                                                " broadcasts to: its dimensions, from the last, "
                                                "equal or 1"));
    }
    return std::vector<TensorType>{{inputs[0].dtype, std::move(shape)}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(0, SumToShape(builder.output_gradient(0), builder.input(0).shape()));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override { return {}; }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    return WithPartial(SplitEveryDim(types), types);
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    const Shape& shape = local.outputs[0].shape;
    return {{"shape", ShapeAttribute(shape)}};
  }

  bool is_view() const override { return true; }

  std::optional<ViewPlacement> View(const OpTypes& types, int output,
                                    const Strides& input_strides) const override {
    const Shape& x = types.inputs[0].shape;
    const Shape& y = types.outputs[0].shape;
    const size_t extra = y.size() - x.size();
    ViewPlacement placement{0, Strides(y.size(), 0)};
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] == y[extra + i]) placement.strides[extra + i] = input_strides[i];
    }
    return placement;
  }
};

}  // namespace

const Operator& ExpandOperator() {
  static const ExpandOp op;
  return op;
}

Tensor Expand(Tensor x, absl::Span<const int64_t> shape) {
  return RecordSingleOutput(ExpandOperator(), {x}, {{"shape", ShapeAttribute(shape)}});
}

}  // namespace tessera
