#include "core/ops/log_sum_exp.h"

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
using sbp::PLse;
using sbp::S;

// Checks the attribute, logits (input `logits`) and targets (the input after it). Returns the type
// of one number for each row, which is a statistic: it is not rounded to 16 bits.
absl::StatusOr<TensorType> CheckRows(const InputCheck& check, int logits,
                                     absl::Span<const TensorType> inputs,
                                     const Attributes& attributes) {
  RETURN_IF_ERROR(check.Floating(logits));
  RETURN_IF_ERROR(check.MinRank(logits, 1));
  const Shape& shape = inputs[logits].shape;
  const Shape rows(shape.begin(), shape.end() - 1);
  RETURN_IF_ERROR(check.Is(logits + 1, {DType::kI32, rows}));
  RETURN_IF_ERROR(check.Has<double>("label_smoothing"));
  const double smoothing = attributes.GetDouble("label_smoothing");
  if (!(smoothing >= 0 && smoothing < 1)) {
    return check.Misfit("label_smoothing", "at least 0 and less than 1");
  }
  return TensorType{StatisticDType(inputs[logits].dtype), rows};
}

class LogSumExpOp : public Operator {
  using Input = LogSumExpInput;
  using Output = LogSumExpOutput;

 public:
  absl::string_view name() const override { return "log_sum_exp"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"logits", "targets"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(const TensorType row, CheckRows(check, Input::kLogits, inputs, attributes));
    return std::vector<TensorType>{row, row};
  }

  absl::string_view OutputName(int i) const override {
    return i == Output::kLse ? "lse" : "target_logit";
  }

  bool Differentiable(int input) const override { return input == Input::kLogits; }

  absl::Status Gradient(GradientBuilder& builder) const override {
    Tensor row_gradients[2];
    for (int i = 0; i < 2; ++i) {
      row_gradients[i] = builder.output_gradient(i);
      if (!row_gradients[i].valid()) {
        row_gradients[i] = Fill(builder.graph(), builder.output(i).type(), 0);
      }
    }
    builder.SetInputGradient(
        Input::kLogits,
        RecordSingleOutput(LogSumExpGradOperator(),
                           {row_gradients[Output::kLse], row_gradients[Output::kTargetLogit],
                            builder.input(Input::kLogits), builder.input(Input::kTargets),
                            builder.output(Output::kLse)},
                           builder.attributes()));
    return absl::OkStatus();
  }

  // For each logit the maximum, the difference from it, its exponential and their sum.
  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 4 * Elements(types.inputs[Input::kLogits]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int rank = static_cast<int>(types.inputs[Input::kTargets].shape.size());
    std::vector<Signature> signatures;
    signatures.reserve(rank + 1);
    for (int d = 0; d < rank; ++d) signatures.push_back({{S(d), S(d)}, {S(d), S(d)}});
    // Split by classes: a target on another device adds nothing here.
    signatures.push_back({{S(rank), B()}, {PLse(), P()}});
    return signatures;
  }
};

class LogSumExpGradOp : public Operator {
  using Input = LogSumExpGradInput;

 public:
  absl::string_view name() const override { return "log_sum_exp_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dlse", "dtarget", "logits", "targets", "lse"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(const TensorType row, CheckRows(check, Input::kLogits, inputs, attributes));
    for (int i : {Input::kDlse, Input::kDtarget, Input::kLse}) RETURN_IF_ERROR(check.Is(i, row));
    return std::vector<TensorType>{inputs[Input::kLogits]};
  }

  bool IsStatistic(int input) const override {
    return input == Input::kDlse || input == Input::kDtarget || input == Input::kLse;
  }

  // For each logit the difference from the log-sum-exp, its exponential, a product and a sum.
  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 4 * Elements(types.outputs[0]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int rank = static_cast<int>(types.inputs[Input::kTargets].shape.size());
    std::vector<Signature> signatures;
    signatures.reserve(rank + 2);
    for (int d = 0; d < rank; ++d) {
      signatures.push_back({{S(d), S(d), S(d), S(d), S(d)}, {S(d)}});
    }
    signatures.push_back({{B(), B(), S(rank), B(), B()}, {S(rank)}});
    signatures.push_back({{P(), P(), B(), B(), B()}, {P()}});
    return signatures;
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    return {{Input::kLogits, 0}};
  }
};

}  // namespace

const Operator& LogSumExpOperator() {
  static const LogSumExpOp op;
  return op;
}

const Operator& LogSumExpGradOperator() {
  static const LogSumExpGradOp op;
  return op;
}

RowLogits LogSumExp(Tensor logits, Tensor targets, double label_smoothing) {
  const std::vector<Tensor> outputs = RecordOperator(LogSumExpOperator(), {logits, targets},
                                                     {{"label_smoothing", label_smoothing}}, 2);
  return {outputs[LogSumExpOutput::kLse], outputs[LogSumExpOutput::kTargetLogit]};
}

}  // namespace tessera
