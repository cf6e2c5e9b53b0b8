#include <cmath>

#include "absl/strings/str_cat.h"
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
using sbp::S;

class AttentionDecodeOp : public Operator {
 public:
  absl::string_view name() const override { return "attention_decode"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"q", "k", "v", "k_cache", "v_cache", "position"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    const TensorType& q = inputs[0];
    if (q.shape.size() != 4 || q.shape[1] != 1) return check.Misfit(0, "of shape [B, 1, H, D]");
    RETURN_IF_ERROR(check.Is(1, q));
    RETURN_IF_ERROR(check.Is(2, q));
    TensorType fitting = q;
    if (inputs[3].shape.size() == 4) fitting.shape[1] = inputs[3].shape[1];
    if (inputs[3] != fitting) {
      return check.Misfit(
          3, absl::StrCat(TypeToString(fitting), " with any size in dimension 1, to fit q"));
    }
    RETURN_IF_ERROR(check.Is(4, inputs[3]));
    RETURN_IF_ERROR(check.Is(5, {DType::kI64, {}}));
    RETURN_IF_ERROR(check.Has<double>("scale"));
    return std::vector<TensorType>{q, inputs[3], inputs[4]};
  }

  absl::string_view OutputName(int i) const override {
    return i == 0 ? "" : i == 1 ? "k_cache" : "v_cache";
  }

  bool Differentiable(int input) const override { return input != 5; }

  // As at the last position. Caches are read once, and one row of each is written.
  OpCost Cost(const OpTypes& types) const override {
    OpCost cost;
    cost.flops = 4 * Elements(types.inputs[3]);
    cost.bytes = static_cast<double>(6 * NumBytes(types.inputs[0]) + NumBytes(types.inputs[3]) +
                                     NumBytes(types.inputs[4]) + NumBytes(types.inputs[5]));
    return cost;
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    for (int d : {0, 2}) {
      signatures.push_back({{S(d), S(d), S(d), S(d), S(d), B()}, {S(d), S(d), S(d)}});
    }
    return signatures;
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    return {{3, 1}, {4, 2}};
  }
};

}  // namespace

const Operator& AttentionDecodeOperator() {
  static const AttentionDecodeOp op;
  return op;
}

DecodedAttention AttentionDecode(Tensor q, Tensor k, Tensor v, Tensor k_cache, Tensor v_cache,
                                 Tensor position) {
  const double scale = 1 / std::sqrt(static_cast<double>(q.dim(-1)));
  const std::vector<Tensor> outputs = RecordUse(
      AttentionDecodeOperator(), {q, k, v, k_cache, v_cache, position}, {{"scale", scale}}, 3);
  return {outputs[0], outputs[1], outputs[2]};
}

}  // namespace tessera
