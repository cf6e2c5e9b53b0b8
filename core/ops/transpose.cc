#include <utility>

#include "absl/strings/str_cat.h"
#include "core/graph/autograd.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class TransposeOp : public Operator {
 public:
  absl::string_view name() const override { return "transpose"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Has<std::vector<int64_t>>("permutation"));
    const std::vector<int64_t>& permutation = attributes.GetInts("permutation");
    const Shape& x = inputs[0].shape;
    std::vector<bool> seen(x.size(), false);
    Shape y;
    for (int64_t axis : permutation) {
      if (axis < 0 || axis >= static_cast<int64_t>(x.size()) || seen[axis]) break;
      seen[axis] = true;
      y.push_back(x[axis]);
    }
    if (y.size() != x.size() || permutation.size() != x.size()) {
      return check.Misfit("permutation", absl::StrCat("each of the ", x.size(), " dimensions of ",
                                                      TypeToString(inputs[0]), " once"));
    }
    return std::vector<TensorType>{{inputs[0].dtype, std::move(y)}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const std::vector<int64_t>& permutation = builder.attributes().GetInts("permutation");
    std::vector<int64_t> inverse(permutation.size());
    for (size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = i;
    builder.SetInputGradient(0, Transpose(builder.output_gradient(0), inverse));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override { return {}; }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const std::vector<int64_t>& permutation = types.attributes.GetInts("permutation");
    std::vector<Signature> signatures;
    for (size_t i = 0; i < permutation.size(); ++i) {
      signatures.push_back(
          {{sbp::S(static_cast<int>(permutation[i]))}, {sbp::S(static_cast<int>(i))}});
    }
    return WithPartial(std::move(signatures), types);
  }

  bool is_view() const override { return true; }

  std::optional<ViewPlacement> View(const OpTypes& types, int output,
                                    const Strides& input_strides) const override {
    ViewPlacement placement;
    for (int64_t axis : types.attributes.GetInts("permutation")) {
      placement.strides.push_back(input_strides[axis]);
    }
    return placement;
  }
};

}  // namespace

const Operator& TransposeOperator() {
  static const TransposeOp op;
  return op;
}

Tensor Transpose(Tensor x, absl::Span<const int64_t> permutation) {
  std::vector<int64_t> axes;
  for (int64_t axis : permutation) axes.push_back(NonNegativeAxis(axis, x.rank()));
  return RecordSingleOutput(TransposeOperator(), {x}, {{"permutation", std::move(axes)}});
}

}  // namespace tessera
