#include <numeric>
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

class SplitOp : public Operator {
 public:
  absl::string_view name() const override { return "split"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.MinRank(0, 1));
    RETURN_IF_ERROR(check.IntIn("axis", 0, static_cast<int64_t>(inputs[0].shape.size())));
    ASSIGN_OR_RETURN(const Shape sizes, check.ShapeOf("sizes"));
    const int64_t axis = attributes.GetInt("axis");
    const int64_t size = inputs[0].shape[axis];
    if (sizes.empty() || std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != size) {
      return check.Misfit("sizes",
                          absl::StrCat("one or more that add up to ", size, ", the size of ",
                                       TypeToString(inputs[0]), " along dimension ", axis));
    }
    std::vector<TensorType> outputs(sizes.size(), inputs[0]);
    for (size_t i = 0; i < sizes.size(); ++i) outputs[i].shape[axis] = sizes[i];
    return outputs;
  }

  // Parts without a gradient count as zeros.
  absl::Status Gradient(GradientBuilder& builder) const override {
    const Attributes& attributes = builder.attributes();
    const int axis = static_cast<int>(attributes.GetInt("axis"));
    const int parts = static_cast<int>(attributes.GetInts("sizes").size());
    std::vector<Tensor> gradients;
    for (int i = 0; i < parts; ++i) {
      Tensor gradient = builder.output_gradient(i);
      if (!gradient.valid()) gradient = Fill(builder.graph(), builder.output(i).type(), 0);
      gradients.push_back(gradient);
    }
    builder.SetInputGradient(0, Concat(gradients, axis));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override { return {}; }

  // Every dimension may be split except the axis, because its parts would be on other devices.
  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int axis = static_cast<int>(types.attributes.GetInt("axis"));
    const int rank = static_cast<int>(types.inputs[0].shape.size());
    const size_t parts = types.outputs.size();
    std::vector<Signature> signatures;
    for (int d = 0; d < rank; ++d) {
      if (d == axis) continue;
      signatures.push_back({{sbp::S(d)}, std::vector<AxisLayout>(parts, sbp::S(d))});
    }
    return WithPartial(std::move(signatures), types);
  }

  bool is_view() const override { return true; }

  std::optional<ViewPlacement> View(const OpTypes& types, int output,
                                    const Strides& input_strides) const override {
    const int64_t axis = types.attributes.GetInt("axis");
    const std::vector<int64_t>& sizes = types.attributes.GetInts("sizes");
    const int64_t before = std::accumulate(sizes.begin(), sizes.begin() + output, int64_t{0});
    return ViewPlacement{before * input_strides[axis], input_strides};
  }
};

}  // namespace

const Operator& SplitOperator() {
  static const SplitOp op;
  return op;
}

std::vector<Tensor> Split(Tensor x, int axis, absl::Span<const int64_t> sizes) {
  return RecordOperator(SplitOperator(), {x},
                        {{"axis", NonNegativeAxis(axis, x.rank())},
                         {"sizes", std::vector<int64_t>(sizes.begin(), sizes.end())}},
                        sizes.size());
}

}  // namespace tessera
