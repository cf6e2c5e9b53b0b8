// The application of batch norm, and its gradient, which includes what flows through the statistics
// if they are those of x (then there is an input `count`). See docs/operators.md.
//
// Weight and bias are f32 beside x in 16 bits, as are the statistics: their rounding would move all
// elements of a channel the same way, and no average over a picture would take it out.
#include "core/ops/batch_norm.h"

#include "core/graph/autograd.h"
#include "core/ops/batch_groups.h"
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
using Kind = GroupOperand;

// Checks the inputs `count` and, if there is one, `valid`.
absl::Status CheckCounts(const InputCheck& check, int x, int count,
                         absl::Span<const TensorType> inputs, int64_t groups) {
  const int inputs_given = static_cast<int>(inputs.size());
  if (inputs_given <= count) return absl::OkStatus();
  RETURN_IF_ERROR(check.Is(count, {StatisticDType(inputs[x].dtype), {groups, 1}}));
  if (inputs_given <= count + 1) return absl::OkStatus();
  return check.Is(count + 1, RowsType(inputs[x]));
}

class BatchNormOp : public Operator {
  using Input = BatchNormInput;

 public:
  absl::string_view name() const override { return "batch_norm"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check = CheckOf(inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckBatch(check, Input::kX, inputs));
    const TensorType& x = inputs[Input::kX];
    RETURN_IF_ERROR(CheckStatistic(check, Input::kX, Input::kMean, inputs, attributes));
    RETURN_IF_ERROR(check.Is(Input::kRstd, inputs[Input::kMean]));
    for (int i : {Input::kWeight, Input::kBias}) RETURN_IF_ERROR(check.Is(i, ChannelsType(x)));
    RETURN_IF_ERROR(
        CheckCounts(check, Input::kX, Input::kCount, inputs, inputs[Input::kMean].shape[0]));
    return std::vector<TensorType>{x};
  }

  bool Differentiable(int input) const override {
    return input == Input::kX || input == Input::kWeight || input == Input::kBias;
  }
  bool IsStatistic(int input) const override { return input != Input::kX; }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const Attributes attributes = builder.attributes();
    const Tensor dy = builder.output_gradient(0);
    const Tensor x = builder.input(Input::kX), mean = builder.input(Input::kMean);
    const Tensor rstd = builder.input(Input::kRstd), weight = builder.input(Input::kWeight);
    const bool own_statistics = builder.num_inputs() > Input::kCount;
    std::vector<Tensor> sums;
    if (own_statistics || builder.needed(Input::kWeight) || builder.needed(Input::kBias)) {
      sums = RecordOperator(BatchNormGradSumsOperator(), {dy, x, mean, rstd}, attributes, 2);
      builder.SetInputGradient(Input::kBias,
                               OfChannels(sums[BatchNormGradSumsOutput::kDySum], weight));
      builder.SetInputGradient(Input::kWeight,
                               OfChannels(sums[BatchNormGradSumsOutput::kProductSum], weight));
    }
    if (!builder.needed(Input::kX)) return absl::OkStatus();
    std::vector<Tensor> inputs = {dy, rstd, weight};
    if (own_statistics) {
      inputs.insert(inputs.end(), {x, mean});
      inputs.insert(inputs.end(), sums.begin(), sums.end());
      for (int i = Input::kCount; i < builder.num_inputs(); ++i) inputs.push_back(builder.input(i));
    }
    builder.SetInputGradient(Input::kX,
                             RecordSingleOutput(BatchNormGradOperator(), inputs, attributes));
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 4 * Elements(types.inputs[Input::kX]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    constexpr Kind kInputs[] = {Kind::kX,        Kind::kStatistic, Kind::kStatistic,
                                Kind::kChannels, Kind::kChannels,  Kind::kCount,
                                Kind::kRows};
    constexpr Kind kOutputs[] = {Kind::kX};
    return GroupSignatures(types, types.inputs[Input::kMean].shape[0],
                           absl::MakeConstSpan(kInputs).first(types.inputs.size()), kOutputs);
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }

 private:
  static InputCheck CheckOf(absl::Span<const TensorType> inputs, const Attributes& attributes) {
    switch (inputs.size()) {
      case Input::kCount + 1:
        return {{"x", "mean", "rstd", "weight", "bias", "count"}, inputs, attributes};
      case Input::kValid + 1:
        return {{"x", "mean", "rstd", "weight", "bias", "count", "valid"}, inputs, attributes};
      default:
        return {{"x", "mean", "rstd", "weight", "bias"}, inputs, attributes};
    }
  }

  // Returns the sum over groups of `sums` [groups, channels], as a gradient of `weight`.
  static Tensor OfChannels(Tensor sums, Tensor weight) {
    return sums.valid() ? SumToShape(sums, weight.shape()) : sums;
  }
};

class BatchNormGradSumsOp : public Operator {
  using Input = BatchNormGradSumsInput;

 public:
  absl::string_view name() const override { return "batch_norm_grad_sums"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "x", "mean", "rstd"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckBatch(check, Input::kDy, inputs));
    RETURN_IF_ERROR(check.Is(Input::kX, inputs[Input::kDy]));
    RETURN_IF_ERROR(CheckStatistic(check, Input::kDy, Input::kMean, inputs, attributes));
    RETURN_IF_ERROR(check.Is(Input::kRstd, inputs[Input::kMean]));
    return std::vector<TensorType>{inputs[Input::kMean], inputs[Input::kMean]};
  }

  absl::string_view OutputName(int i) const override {
    return i == BatchNormGradSumsOutput::kDySum ? "dy_sum" : "product_sum";
  }

  bool Differentiable(int input) const override { return false; }
  bool IsStatistic(int input) const override {
    return input == Input::kMean || input == Input::kRstd;
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 5 * Elements(types.inputs[Input::kX]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    constexpr Kind kInputs[] = {Kind::kX, Kind::kX, Kind::kStatistic, Kind::kStatistic};
    constexpr Kind kOutputs[] = {Kind::kStatistic, Kind::kStatistic};
    std::vector<Signature> signatures =
        GroupSignatures(types, types.outputs[0].shape[0], kInputs, kOutputs);
    signatures.push_back({{P(), B(), B(), B()}, {P(), P()}});
    return signatures;
  }
};

class BatchNormGradOp : public Operator {
  using Input = BatchNormGradInput;

 public:
  absl::string_view name() const override { return "batch_norm_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check = CheckOf(inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckBatch(check, Input::kDy, inputs));
    const TensorType& dy = inputs[Input::kDy];
    RETURN_IF_ERROR(CheckStatistic(check, Input::kDy, Input::kRstd, inputs, attributes));
    RETURN_IF_ERROR(check.Is(Input::kWeight, ChannelsType(dy)));
    if (inputs.size() > Input::kX) {
      RETURN_IF_ERROR(check.Is(Input::kX, dy));
      for (int i : {Input::kMean, Input::kDySum, Input::kProductSum}) {
        RETURN_IF_ERROR(check.Is(i, inputs[Input::kRstd]));
      }
      RETURN_IF_ERROR(
          CheckCounts(check, Input::kDy, Input::kCount, inputs, inputs[Input::kRstd].shape[0]));
    }
    return std::vector<TensorType>{dy};
  }

  absl::string_view OutputName(int i) const override { return "dx"; }

  bool IsStatistic(int input) const override { return input != Input::kDy && input != Input::kX; }

  OpCost Cost(const OpTypes& types) const override {
    const double flops_per_element = types.inputs.size() > Input::kX ? 9 : 2;
    return WithFlops(Operator::Cost(types), flops_per_element * Elements(types.inputs[Input::kDy]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    constexpr Kind kInputs[] = {Kind::kX,         Kind::kStatistic, Kind::kChannels,
                                Kind::kX,         Kind::kStatistic, Kind::kStatistic,
                                Kind::kStatistic, Kind::kCount,     Kind::kRows};
    constexpr Kind kOutputs[] = {Kind::kX};
    const size_t count = types.inputs.size();
    std::vector<Signature> signatures =
        GroupSignatures(types, types.inputs[Input::kRstd].shape[0],
                        absl::MakeConstSpan(kInputs).first(count), kOutputs);
    // Linear in dy and its sums together.
    Signature partial = {std::vector<AxisLayout>(count, B()), {P()}};
    partial.inputs[Input::kDy] = P();
    if (count > Input::kX) {
      partial.inputs[Input::kDySum] = partial.inputs[Input::kProductSum] = P();
    }
    signatures.push_back(std::move(partial));
    return signatures;
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }

 private:
  static InputCheck CheckOf(absl::Span<const TensorType> inputs, const Attributes& attributes) {
    switch (inputs.size()) {
      case Input::kCount + 1:
        return {{"dy", "rstd", "weight", "x", "mean", "dy_sum", "product_sum", "count"},
                inputs,
                attributes};
      case Input::kValid + 1:
        return {{"dy", "rstd", "weight", "x", "mean", "dy_sum", "product_sum", "count", "valid"},
                inputs,
                attributes};
      default:
        return {{"dy", "rstd", "weight"}, inputs, attributes};
    }
  }
};

}  // namespace

const Operator& BatchNormOperator() {
  static const BatchNormOp op;
  return op;
}

const Operator& BatchNormGradSumsOperator() {
  static const BatchNormGradSumsOp op;
  return op;
}

const Operator& BatchNormGradOperator() {
  static const BatchNormGradOp op;
  return op;
}

}  // namespace tessera
