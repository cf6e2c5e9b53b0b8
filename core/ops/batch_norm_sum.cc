// The statistics of batch norm: batch_norm_sum, and batch_norm_squares, which needs the completed
// mean. The gradient that flows through them is part of batch_norm's, so they have none.
#include "absl/strings/str_cat.h"
#include "core/ops/batch_groups.h"
#include "core/ops/batch_norm.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class BatchNormSumOp : public Operator {
  using Input = BatchNormSumInput;

 public:
  absl::string_view name() const override { return "batch_norm_sum"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const bool has_valid = inputs.size() == 2;
    const InputCheck check = has_valid ? InputCheck({"x", "valid"}, inputs, attributes)
                                       : InputCheck({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckBatch(check, Input::kX, inputs));
    const TensorType& x = inputs[Input::kX];
    if (has_valid) RETURN_IF_ERROR(check.Is(Input::kValid, RowsType(x)));
    RETURN_IF_ERROR(check.IntIn("groups", 0, int64_t{1} << 40));
    const int64_t groups = attributes.GetInt("groups");
    const int64_t least = GroupsOfRows(x.shape[0], attributes);
    if (groups < least) {
      return check.Misfit("groups",
                          absl::StrCat(least, " or more, as ", x.shape[0], " rows are groups of ",
                                       attributes.GetInt("group_rows")));
    }
    return std::vector<TensorType>{StatisticType(x, groups),
                                   {StatisticDType(x.dtype), {groups, 1}}};
  }

  absl::string_view OutputName(int i) const override {
    return i == BatchNormSumOutput::kSum ? "" : "count";
  }

  bool Differentiable(int input) const override { return false; }
  bool IsStatistic(int input) const override { return input == Input::kValid; }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), Elements(types.inputs[Input::kX]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    constexpr GroupOperand kInputs[] = {GroupOperand::kX, GroupOperand::kRows};
    constexpr GroupOperand kOutputs[] = {GroupOperand::kStatistic, GroupOperand::kCount};
    return GroupSignatures(types, types.outputs[BatchNormSumOutput::kSum].shape[0],
                           absl::MakeConstSpan(kInputs).first(types.inputs.size()), kOutputs);
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    Attributes result = attributes;
    result.Set("groups", local.outputs[BatchNormSumOutput::kSum].shape[0]);
    return result;
  }

  // A rank without channels counts the valid rows as the others do.
  bool TakesEmptyInputs() const override { return true; }

  absl::Status CheckMicroBatches(const OpTypes& types, int64_t micro_batches) const override {
    const int64_t rows = types.inputs[Input::kX].shape[0];
    const int64_t groups = types.attributes.GetInt("groups");
    const int64_t group_rows = types.attributes.GetInt("group_rows");
    if (groups % micro_batches == 0 && rows == groups * group_rows) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        micro_batches, " micro-batches would cut its groups of rows (", groups, " of ", group_rows,
        "); use a multiple of ", micro_batches, " groups, of equal size, or 1 micro-batch"));
  }
};

class BatchNormSquaresOp : public Operator {
  using Input = BatchNormSquaresInput;

 public:
  absl::string_view name() const override { return "batch_norm_squares"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const bool has_valid = inputs.size() == 3;
    const InputCheck check = has_valid ? InputCheck({"x", "mean", "valid"}, inputs, attributes)
                                       : InputCheck({"x", "mean"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckBatch(check, Input::kX, inputs));
    RETURN_IF_ERROR(CheckStatistic(check, Input::kX, Input::kMean, inputs, attributes));
    if (has_valid) RETURN_IF_ERROR(check.Is(Input::kValid, RowsType(inputs[Input::kX])));
    return std::vector<TensorType>{inputs[Input::kMean]};
  }

  bool Differentiable(int input) const override { return false; }
  bool IsStatistic(int input) const override { return input != Input::kX; }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 3 * Elements(types.inputs[Input::kX]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    constexpr GroupOperand kInputs[] = {GroupOperand::kX, GroupOperand::kStatistic,
                                        GroupOperand::kRows};
    constexpr GroupOperand kOutputs[] = {GroupOperand::kStatistic};
    return GroupSignatures(types, types.outputs[0].shape[0],
                           absl::MakeConstSpan(kInputs).first(types.inputs.size()), kOutputs);
  }
};

}  // namespace

const Operator& BatchNormSumOperator() {
  static const BatchNormSumOp op;
  return op;
}

const Operator& BatchNormSquaresOperator() {
  static const BatchNormSquaresOp op;
  return op;
}

}  // namespace tessera
