#include "core/ops/layer_norm.h"

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

using sbp::B;
using sbp::P;
using sbp::S;

// Returns the type of a tensor with one number for each row.
TensorType RowsOf(const TensorType& x) {
  return {StatisticDType(x.dtype), Shape(x.shape.begin(), x.shape.end() - 1)};
}

class LayerNormOp : public Operator {
  using Input = LayerNormInput;
  using Output = LayerNormOutput;

 public:
  absl::string_view name() const override { return "layer_norm"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x", "weight", "bias"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kX));
    RETURN_IF_ERROR(check.MinRank(Input::kX, 1));
    const TensorType& x = inputs[Input::kX];
    for (int i : {Input::kWeight, Input::kBias}) {
      RETURN_IF_ERROR(check.Is(i, {x.dtype, {x.shape.back()}}));
    }
    RETURN_IF_ERROR(check.Has<double>("eps"));
    if (!(attributes.GetDouble("eps") >= 0)) return check.Misfit("eps", "0 or more");
    return std::vector<TensorType>{x, RowsOf(x), RowsOf(x)};
  }

  absl::string_view OutputName(int i) const override {
    return i == Output::kY ? "" : i == Output::kMean ? "mean" : "rstd";
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    if (builder.output_gradient(Output::kMean).valid() ||
        builder.output_gradient(Output::kRstd).valid()) {
      return absl::UnimplementedError("no gradient flows through layer_norm's mean and rstd");
    }
    const std::vector<Tensor> gradients =
        RecordOperator(LayerNormGradOperator(),
                       {builder.output_gradient(Output::kY), builder.input(Input::kX),
                        builder.input(Input::kWeight), builder.output(Output::kMean),
                        builder.output(Output::kRstd)},
                       {}, 3);
    for (int i = 0; i < 3; ++i) builder.SetInputGradient(i, gradients[i]);
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 8 * Elements(types.inputs[Input::kX]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    for (int d = 0; d + 1 < static_cast<int>(types.inputs[Input::kX].shape.size()); ++d) {
      signatures.push_back({{S(d), B(), B()}, {S(d), S(d), S(d)}});
    }
    return signatures;
  }
};

class LayerNormGradOp : public Operator {
  using Input = LayerNormGradInput;

 public:
  absl::string_view name() const override { return "layer_norm_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "x", "weight", "mean", "rstd"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kDy));
    RETURN_IF_ERROR(check.MinRank(Input::kDy, 1));
    const TensorType& dy = inputs[Input::kDy];
    RETURN_IF_ERROR(check.Is(Input::kX, dy));
    const TensorType weight{dy.dtype, {dy.shape.back()}};
    RETURN_IF_ERROR(check.Is(Input::kWeight, weight));
    for (int i : {Input::kMean, Input::kRstd}) RETURN_IF_ERROR(check.Is(i, RowsOf(dy)));
    return std::vector<TensorType>{dy, weight, weight};
  }

  bool IsStatistic(int input) const override {
    return input == Input::kMean || input == Input::kRstd;
  }

  absl::string_view OutputName(int i) const override {
    return i == LayerNormGradOutput::kDx        ? "dx"
           : i == LayerNormGradOutput::kDweight ? "dweight"
                                                : "dbias";
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 14 * Elements(types.inputs[Input::kDy]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    for (int d = 0; d + 1 < static_cast<int>(types.inputs[Input::kDy].shape.size()); ++d) {
      signatures.push_back({{S(d), S(d), B(), S(d), S(d)}, {S(d), P(), P()}});
    }
    signatures.push_back({{P(), B(), B(), B(), B()}, {P(), P(), P()}});
    return signatures;
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

}  // namespace

const Operator& LayerNormOperator() {
  static const LayerNormOp op;
  return op;
}

const Operator& LayerNormGradOperator() {
  static const LayerNormGradOp op;
  return op;
}

Tensor LayerNorm(Tensor x, Tensor weight, Tensor bias, double eps) {
  return RecordOperator(LayerNormOperator(), {x, weight, bias}, {{"eps", eps}})[0];
}

}  // namespace tessera
