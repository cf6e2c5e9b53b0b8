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

class ConcatOp : public Operator {
 public:
  absl::string_view name() const override { return "concat"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.MinRank(0, 1));
    RETURN_IF_ERROR(check.IntIn("axis", 0, static_cast<int64_t>(inputs[0].shape.size())));
    const int64_t axis = attributes.GetInt("axis");
    TensorType joined = inputs[0];
    for (int i = 1; i < static_cast<int>(inputs.size()); ++i) {
      TensorType fitting = inputs[0];
      if (inputs[i].shape.size() == fitting.shape.size()) {
        fitting.shape[axis] = inputs[i].shape[axis];
      }
      if (inputs[i] != fitting) {
        return check.Misfit(i, absl::StrCat(TypeToString(fitting), " with any size in dimension ",
                                            axis, ", to join with input 0"));
      }
      joined.shape[axis] += inputs[i].shape[axis];
    }
    return std::vector<TensorType>{std::move(joined)};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const int axis = static_cast<int>(builder.attributes().GetInt("axis"));
    std::vector<int64_t> sizes;
    sizes.reserve(builder.num_inputs());
    for (int i = 0; i < builder.num_inputs(); ++i) sizes.push_back(builder.input(i).dim(axis));
    const std::vector<Tensor> parts = Split(builder.output_gradient(0), axis, sizes);
    for (int i = 0; i < builder.num_inputs(); ++i) builder.SetInputGradient(i, parts[i]);
    return absl::OkStatus();
  }

  // Inputs that are written in place need no copy.
  OpCost Cost(const OpTypes& types) const override { return {}; }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int axis = static_cast<int>(types.attributes.GetInt("axis"));
    const int rank = static_cast<int>(types.outputs[0].shape.size());
    const size_t parts = types.inputs.size();
    std::vector<Signature> signatures;
    for (int d = 0; d < rank; ++d) {
      if (d == axis) continue;
      signatures.push_back({std::vector<AxisLayout>(parts, sbp::S(d)), {sbp::S(d)}});
    }
    return WithPartial(std::move(signatures), types);
  }

  bool is_assembly() const override { return true; }

  ViewPlacement Part(const OpTypes& types, int input) const override {
    const int64_t axis = types.attributes.GetInt("axis");
    int64_t before = 0;
    for (int i = 0; i < input; ++i) before += types.inputs[i].shape[axis];
    Strides strides = RowMajorStrides(types.outputs[0].shape);
    const int64_t offset = before * strides[axis];
    return {offset, std::move(strides)};
  }
};

}  // namespace

const Operator& ConcatOperator() {
  static const ConcatOp op;
  return op;
}

Tensor Concat(absl::Span<const Tensor> parts, int axis) {
  const int rank = parts.empty() ? 0 : parts[0].rank();
  return RecordSingleOutput(ConcatOperator(), parts, {{"axis", NonNegativeAxis(axis, rank)}});
}

}  // namespace tessera
