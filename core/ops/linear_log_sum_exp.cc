#include "core/ops/linear_log_sum_exp.h"

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

using sbp::B;
using sbp::P;
using sbp::PLse;
using sbp::S;

// Checks x (input `x`), w and targets (the two inputs after it). Returns the type of one number for
// each row.
absl::StatusOr<TensorType> CheckLogits(const InputCheck& check, int x,
                                       absl::Span<const TensorType> inputs) {
  RETURN_IF_ERROR(check.Floating(x));
  RETURN_IF_ERROR(check.MinRank(x, 1));
  const Shape& rows_and_c = inputs[x].shape;
  RETURN_IF_ERROR(check.SameDType(x + 1, x));
  const Shape& w = inputs[x + 1].shape;
  if (w.size() != 2 || w[1] != rows_and_c.back()) {
    return check.Misfit(x + 1, absl::StrCat("of shape [V, ", rows_and_c.back(), "], to fit x, ",
                                            TypeToString(inputs[x])));
  }
  const Shape rows(rows_and_c.begin(), rows_and_c.end() - 1);
  RETURN_IF_ERROR(check.Is(x + 2, {DType::kI32, rows}));
  return TensorType{StatisticDType(inputs[x].dtype), rows};
}

// Checks that the attribute `keep_logits` is absent, true or false.
absl::Status CheckKeepLogits(absl::Span<const TensorType> inputs, const Attributes& attributes) {
  if (!attributes.Has("keep_logits")) return absl::OkStatus();
  return InputCheck({}, inputs, attributes).Has<bool>("keep_logits");
}

// Returns the type of the logits, which are statistics: they are not rounded to 16 bits.
TensorType LogitsType(TensorType row, const TensorType& w) {
  row.shape.push_back(w.shape[0]);
  return row;
}

// Returns the FLOPs of one product over all logits.
double ProductFlops(const TensorType& x, const TensorType& w) {
  return 2 * Elements(x) * static_cast<double>(w.shape[0]);
}

// Returns the number of dimensions of x that are rows.
int RowRank(const TensorType& x) { return static_cast<int>(x.shape.size()) - 1; }

// Records the logits, which are statistics, as a tensor.
Tensor Logits(Tensor x, Tensor w) {
  const DType statistic = StatisticDType(x.dtype());
  const Tensor wide_x = InDType(x, statistic);
  return MatMul(wide_x, InDType(w, statistic), /*transpose_a=*/false, /*transpose_b=*/true);
}

class LinearLogSumExpOp : public Operator {
  using Input = LinearLogSumExpInput;
  using Output = LinearLogSumExpOutput;

 public:
  absl::string_view name() const override { return "linear_log_sum_exp"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    RETURN_IF_ERROR(CheckKeepLogits(inputs, attributes));
    const InputCheck check({"x", "w", "targets"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(const TensorType row, CheckLogits(check, Input::kX, inputs));
    std::vector<TensorType> outputs = {row, row};
    if (KeepsLogits(attributes)) outputs.push_back(LogitsType(row, inputs[Input::kW]));
    return outputs;
  }

  absl::string_view OutputName(int i) const override {
    return i == Output::kLse ? "lse" : i == Output::kTargetLogit ? "target_logit" : "logits";
  }

  bool Differentiable(int input) const override { return input != Input::kTargets; }

  absl::Status Gradient(GradientBuilder& builder) const override {
    const bool keeps_logits = KeepsLogits(builder.attributes());
    if (keeps_logits && builder.output_gradient(Output::kLogits).valid()) {
      return absl::UnimplementedError("no gradient flows through the logits that are kept");
    }
    Tensor row_gradients[2];
    for (int i = 0; i < 2; ++i) {
      row_gradients[i] = builder.output_gradient(i);
      if (!row_gradients[i].valid()) {
        row_gradients[i] = Fill(builder.graph(), builder.output(i).type(), 0);
      }
    }
    std::vector<Tensor> inputs = {
        row_gradients[Output::kLse],    row_gradients[Output::kTargetLogit],
        builder.input(Input::kX),       builder.input(Input::kW),
        builder.input(Input::kTargets), builder.output(Output::kLse)};
    if (keeps_logits) inputs.push_back(builder.output(Output::kLogits));
    const std::vector<Tensor> gradients =
        RecordOperator(LinearLogSumExpGradOperator(), inputs, builder.attributes(), 2);
    for (int i = 0; i < 2; ++i) builder.SetInputGradient(i, gradients[i]);
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types),
                     ProductFlops(types.inputs[Input::kX], types.inputs[Input::kW]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int rank = static_cast<int>(types.inputs[Input::kTargets].shape.size());
    std::vector<Signature> signatures;
    signatures.reserve(rank);
    for (int d = 0; d < rank; ++d) {
      signatures.push_back({{S(d), B(), S(d)}, {S(d), S(d)}});
    }
    // Split by vocabulary: a target on another device adds nothing here.
    signatures.push_back({{B(), S(0), B()}, {PLse(), P()}});
    if (!KeepsLogits(types.attributes)) return signatures;
    for (int d = 0; d <= rank; ++d) signatures[d].outputs.push_back(S(d));
    return signatures;
  }

  // Split by the elements of x, logits are partial sums, which are completed.
  std::vector<Signature> StatedSignatures(const OpTypes& types) const override {
    if (RowRank(types.inputs[Input::kX]) == 0) return {};  // there is no product of one row
    Signature signature = {{S(RowRank(types.inputs[Input::kX])), S(1), B()}, {B(), B()}, true};
    if (KeepsLogits(types.attributes)) signature.outputs.push_back(B());
    return {signature};
  }

  std::vector<Tensor> RecordInParts(absl::Span<const Tensor> inputs,
                                    const Attributes& attributes) const override {
    const Tensor logits = Logits(inputs[Input::kX], inputs[Input::kW]);
    const RowLogits rows = LogSumExp(logits, inputs[Input::kTargets]);
    std::vector<Tensor> outputs = {rows.lse, rows.target_logit};
    if (KeepsLogits(attributes)) outputs.push_back(logits);
    return outputs;
  }
};

class LinearLogSumExpGradOp : public Operator {
  using Input = LinearLogSumExpGradInput;

 public:
  absl::string_view name() const override { return "linear_log_sum_exp_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    RETURN_IF_ERROR(CheckKeepLogits(inputs, attributes));
    const bool keeps_logits = KeepsLogits(attributes);
    const InputCheck check =
        keeps_logits
            ? InputCheck({"dlse", "dtarget", "x", "w", "targets", "lse", "logits"}, inputs,
                         attributes)
            : InputCheck({"dlse", "dtarget", "x", "w", "targets", "lse"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(const TensorType row, CheckLogits(check, Input::kX, inputs));
    for (int i : {Input::kDlse, Input::kDtarget, Input::kLse}) {
      RETURN_IF_ERROR(check.Is(i, row));
    }
    if (keeps_logits) {
      RETURN_IF_ERROR(check.Is(Input::kLogits, LogitsType(row, inputs[Input::kW])));
    }
    return std::vector<TensorType>{inputs[Input::kX], inputs[Input::kW]};
  }

  absl::string_view OutputName(int i) const override {
    return i == LinearLogSumExpGradOutput::kDx ? "dx" : "dw";
  }

  bool IsStatistic(int input) const override {
    return input == Input::kDlse || input == Input::kDtarget || input == Input::kLse ||
           input == Input::kLogits;
  }

  // Logits are recomputed, unless they are kept; then follow dx and dw.
  OpCost Cost(const OpTypes& types) const override {
    const double product = ProductFlops(types.inputs[Input::kX], types.inputs[Input::kW]);
    const double recomputed = KeepsLogits(types.attributes) ? 0 : product;
    OpCost cost = WithFlops(Operator::Cost(types), recomputed + 2 * product);
    cost.recomputed_flops = recomputed;
    return cost;
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int rank = static_cast<int>(types.inputs[Input::kTargets].shape.size());
    std::vector<Signature> signatures;
    signatures.reserve(rank);
    for (int d = 0; d < rank; ++d) {
      signatures.push_back({{S(d), S(d), S(d), B(), S(d), S(d)}, {S(d), P()}});
    }
    signatures.push_back({{B(), B(), B(), S(0), B(), B()}, {P(), S(0)}});
    signatures.push_back({{P(), P(), B(), B(), B(), B()}, {P(), P()}});
    if (!KeepsLogits(types.attributes)) return signatures;
    for (int d = 0; d <= rank; ++d) signatures[d].inputs.push_back(S(d));
    signatures.back().inputs.push_back(B());
    // Given the logits, elements of x and w are independent of each other.
    signatures.push_back({{B(), B(), S(rank), S(1), B(), B(), B()}, {S(rank), S(1)}});
    return signatures;
  }

  // Split by the elements of x, as the forward operator is, unless logits are kept.
  std::vector<Signature> StatedSignatures(const OpTypes& types) const override {
    const int dim = RowRank(types.inputs[Input::kX]);
    if (KeepsLogits(types.attributes) || dim == 0) return {};
    return {{{B(), B(), S(dim), S(1), B(), B()}, {S(dim), S(1)}, /*in_parts=*/true}};
  }

  std::vector<Tensor> RecordInParts(absl::Span<const Tensor> inputs,
                                    const Attributes& /*attributes*/) const override {
    const Tensor x = inputs[Input::kX], w = inputs[Input::kW];
    const Tensor dlogits =
        RecordSingleOutput(LogSumExpGradOperator(),
                           {inputs[Input::kDlse], inputs[Input::kDtarget], Logits(x, w),
                            inputs[Input::kTargets], inputs[Input::kLse]},
                           {{"label_smoothing", 0.0}});
    const Tensor dx = MatMul(dlogits, InDType(w, dlogits.dtype()));
    const Tensor full_x = InDType(x, dlogits.dtype());
    const Tensor dw = x.rank() > 2 ? ContractLeading(dlogits, full_x)
                                   : MatMul(dlogits, full_x, /*transpose_a=*/true);
    return {InDType(dx, x.dtype()), InDType(dw, w.dtype())};
  }
};

}  // namespace

const Operator& LinearLogSumExpOperator() {
  static const LinearLogSumExpOp op;
  return op;
}

const Operator& LinearLogSumExpGradOperator() {
  static const LinearLogSumExpGradOp op;
  return op;
}

RowLogits LinearLogSumExp(Tensor x, Tensor weight, Tensor targets) {
  const std::vector<Tensor> outputs =
      RecordOperator(LinearLogSumExpOperator(), {x, weight, targets}, {}, 2);
  return {outputs[LinearLogSumExpOutput::kLse], outputs[LinearLogSumExpOutput::kTargetLogit]};
}

}  // namespace tessera
