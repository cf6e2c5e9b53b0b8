#include "core/ops/layer_norm.h"

#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/normalized_rows.h"
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

// Returns the size of a row.
double ColumnsOf(Tensor x) { return static_cast<double>(x.dim(-1)); }

class LayerNormOp : public Operator {
  using Input = LayerNormInput;
  using Output = LayerNormOutput;

 public:
  absl::string_view name() const override { return "layer_norm"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x", "weight", "bias"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckNormalized(check, Input::kX));
    const TensorType& x = inputs[Input::kX];
    for (int i : {Input::kWeight, Input::kBias}) {
      RETURN_IF_ERROR(check.Is(i, WeightOfColumns(x)));
    }
    RETURN_IF_ERROR(check.Has<double>("eps"));
    if (!(attributes.GetDouble("eps") >= 0)) return check.Misfit("eps", "0 or more");
    return std::vector<TensorType>{x, StatisticOfRows(x), StatisticOfRows(x)};
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

  // Split along the last dimension, each rank has a part of every row.
  std::vector<Signature> StatedSignatures(const OpTypes& types) const override {
    const int last = static_cast<int>(types.inputs[Input::kX].shape.size()) - 1;
    return {{{S(last), S(0), S(0)}, {S(last), B(), B()}, /*in_parts=*/true}};
  }

  std::vector<Tensor> RecordInParts(absl::Span<const Tensor> inputs,
                                    const Attributes& attributes) const override {
    const Tensor x = inputs[Input::kX];
    const double columns = ColumnsOf(x);
    const Tensor sum = RecordSingleOutput(LayerNormSumOperator(), {x});
    const Tensor mean = Scale(sum, 1 / columns);
    const Tensor squares = RecordSingleOutput(LayerNormSquaresOperator(), {x, mean});
    const Tensor variance = Scale(squares, 1 / columns);
    const Tensor rstd = Rsqrt(AddConstant(variance, attributes.GetDouble("eps")));
    const Tensor y = RecordSingleOutput(
        LayerNormApplyOperator(), {x, mean, rstd, inputs[Input::kWeight], inputs[Input::kBias]});
    return {y, mean, rstd};
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
    RETURN_IF_ERROR(CheckNormalized(check, Input::kDy));
    const TensorType& dy = inputs[Input::kDy];
    RETURN_IF_ERROR(check.Is(Input::kX, dy));
    const TensorType weight = WeightOfColumns(dy);
    RETURN_IF_ERROR(check.Is(Input::kWeight, weight));
    for (int i : {Input::kMean, Input::kRstd}) RETURN_IF_ERROR(check.Is(i, StatisticOfRows(dy)));
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

  std::vector<Signature> StatedSignatures(const OpTypes& types) const override {
    const int last = static_cast<int>(types.inputs[Input::kDy].shape.size()) - 1;
    return {{{S(last), S(last), S(0), B(), B()}, {S(last), S(0), S(0)}, /*in_parts=*/true}};
  }

  std::vector<Tensor> RecordInParts(absl::Span<const Tensor> inputs,
                                    const Attributes& /*attributes*/) const override {
    const double columns = ColumnsOf(inputs[Input::kX]);
    const std::vector<Tensor> sums = RecordOperator(LayerNormGradSumsOperator(), inputs, {}, 2);
    std::vector<Tensor> operands(inputs.begin(), inputs.end());
    for (const Tensor& sum : sums) operands.push_back(Scale(sum, 1 / columns));
    return RecordOperator(LayerNormGradApplyOperator(), operands, {}, 3);
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
