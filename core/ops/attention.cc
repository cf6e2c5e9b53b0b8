#include "core/ops/attention.h"

#include <cmath>

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
using sbp::S;

// Checks q (input `q`), k and v (the two inputs after it), and the attributes. Returns the type of
// lse.
absl::StatusOr<TensorType> CheckScores(const InputCheck& check, int q,
                                       absl::Span<const TensorType> inputs,
                                       const Attributes& attributes) {
  RETURN_IF_ERROR(check.Floating(q));
  const TensorType& query = inputs[q];
  const TensorType& key = inputs[q + 1];
  if (query.shape.size() != 4) return check.Misfit(q, "of rank 4, [B, Tq, H, D]");
  TensorType fitting = query;
  if (key.shape.size() == 4) fitting.shape[1] = key.shape[1];
  if (key != fitting) {
    return check.Misfit(
        q + 1, absl::StrCat(TypeToString(fitting), " with any size in dimension 1, to fit q"));
  }
  RETURN_IF_ERROR(check.Is(q + 2, key));
  RETURN_IF_ERROR(check.Has<bool>("causal"));
  RETURN_IF_ERROR(check.Has<double>("scale"));
  if (attributes.GetBool("causal") && key.shape[1] != query.shape[1]) {
    return check.Misfit(q + 1, absl::StrCat("as long as q in dimension 1, ", query.shape[1],
                                            ", where the attention is causal"));
  }
  return TensorType{StatisticDType(query.dtype), {query.shape[0], query.shape[2], query.shape[1]}};
}

// Returns the FLOPs of one product over all unmasked scores: q k^T, or the weights times v.
double ProductFlops(const TensorType& q, const TensorType& k, bool causal) {
  const double tq = static_cast<double>(q.shape[1]), tk = static_cast<double>(k.shape[1]);
  const double scores = causal ? tq * (tq + 1) / 2 : tq * tk;
  return 2 * static_cast<double>(q.shape[0] * q.shape[2] * q.shape[3]) * scores;
}

class AttentionOp : public Operator {
  using Input = AttentionInput;
  using Output = AttentionOutput;

 public:
  absl::string_view name() const override { return "attention"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"q", "k", "v"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(TensorType lse, CheckScores(check, Input::kQ, inputs, attributes));
    return std::vector<TensorType>{inputs[Input::kQ], std::move(lse)};
  }

  absl::string_view OutputName(int i) const override {
    return i == AttentionOutput::kO ? "" : "lse";
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    if (builder.output_gradient(Output::kLse).valid()) {
      return absl::UnimplementedError("no gradient flows through attention's lse");
    }
    const std::vector<Tensor> gradients = RecordOperator(
        AttentionGradOperator(),
        {builder.output_gradient(Output::kO), builder.input(Input::kQ), builder.input(Input::kK),
         builder.input(Input::kV), builder.output(Output::kO), builder.output(Output::kLse)},
        builder.attributes(), 3);
    for (int i = 0; i < 3; ++i) builder.SetInputGradient(i, gradients[i]);
    return absl::OkStatus();
  }

  OpCost Cost(const OpTypes& types) const override {
    const double product = ProductFlops(types.inputs[Input::kQ], types.inputs[Input::kK],
                                        types.attributes.GetBool("causal"));
    return WithFlops(Operator::Cost(types), 2 * product);
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures = {{{S(0), S(0), S(0)}, {S(0), S(0)}},
                                         {{S(2), S(2), S(2)}, {S(2), S(1)}}};
    // A causal mask needs the position of a query counted from the first one.
    if (!types.attributes.GetBool("causal")) {
      signatures.push_back({{S(1), B(), B()}, {S(1), S(2)}});
    }
    return signatures;
  }
};

class AttentionGradOp : public Operator {
  using Input = AttentionGradInput;

 public:
  absl::string_view name() const override { return "attention_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"do", "q", "k", "v", "o", "lse"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(const TensorType lse, CheckScores(check, Input::kQ, inputs, attributes));
    RETURN_IF_ERROR(check.Is(Input::kDo, inputs[Input::kQ]));
    RETURN_IF_ERROR(check.Is(Input::kO, inputs[Input::kQ]));
    RETURN_IF_ERROR(check.Is(Input::kLse, lse));
    return std::vector<TensorType>{inputs[Input::kQ], inputs[Input::kK], inputs[Input::kV]};
  }

  absl::string_view OutputName(int i) const override {
    return i == AttentionGradOutput::kDq ? "dq" : i == AttentionGradOutput::kDk ? "dk" : "dv";
  }

  bool IsStatistic(int input) const override { return input == Input::kLse; }

  // Scores are recomputed; then follow dv, the weights' gradient, dq and dk.
  OpCost Cost(const OpTypes& types) const override {
    const double product = ProductFlops(types.inputs[Input::kQ], types.inputs[Input::kK],
                                        types.attributes.GetBool("causal"));
    OpCost cost = WithFlops(Operator::Cost(types), 5 * product);
    cost.recomputed_flops = product;
    return cost;
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures = {
        {{S(0), S(0), S(0), S(0), S(0), S(0)}, {S(0), S(0), S(0)}},
        {{S(2), S(2), S(2), S(2), S(2), S(1)}, {S(2), S(2), S(2)}}};
    if (!types.attributes.GetBool("causal")) {
      signatures.push_back({{S(1), S(1), B(), B(), S(1), S(2)}, {S(1), P(), P()}});
      signatures.push_back({{B(), B(), S(1), S(1), B(), B()}, {P(), S(1), S(1)}});
    }
    signatures.push_back({{P(), B(), B(), B(), B(), B()}, {P(), P(), P()}});
    return signatures;
  }
};

}  // namespace

const Operator& AttentionOperator() {
  static const AttentionOp op;
  return op;
}

const Operator& AttentionGradOperator() {
  static const AttentionGradOp op;
  return op;
}

Tensor Attention(Tensor q, Tensor k, Tensor v, bool causal) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(-1)));
  return RecordOperator(AttentionOperator(), {q, k, v}, {{"causal", causal}, {"scale", scale}})[0];
}

}  // namespace tessera
