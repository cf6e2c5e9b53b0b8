#include "core/ops/attention_decode.h"

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

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
  using Input = AttentionDecodeInput;
  using Output = AttentionDecodeOutput;

 public:
  absl::string_view name() const override { return "attention_decode"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"q", "k", "v", "k_cache", "v_cache", "position"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kQ));
    const TensorType& q = inputs[Input::kQ];
    if (q.shape.size() != 4 || q.shape[1] != 1)
      return check.Misfit(Input::kQ, "of shape [B, 1, H, D]");
    RETURN_IF_ERROR(check.Is(Input::kK, q));
    RETURN_IF_ERROR(check.Is(Input::kV, q));
    TensorType fitting = q;
    if (inputs[Input::kKCache].shape.size() == 4)
      fitting.shape[1] = inputs[Input::kKCache].shape[1];
    if (inputs[Input::kKCache] != fitting) {
      return check.Misfit(Input::kKCache, absl::StrCat(TypeToString(fitting),
                                                       " with any size in dimension 1, to fit q"));
    }
    RETURN_IF_ERROR(check.Is(Input::kVCache, inputs[Input::kKCache]));
    RETURN_IF_ERROR(check.Is(Input::kPosition, {DType::kI64, {}}));
    RETURN_IF_ERROR(check.Has<double>("scale"));
    return std::vector<TensorType>{q, inputs[Input::kKCache], inputs[Input::kVCache]};
  }

  absl::string_view OutputName(int i) const override {
    return i == Output::kO ? "" : i == Output::kKCache ? "k_cache" : "v_cache";
  }

  bool Differentiable(int input) const override { return input != Input::kPosition; }

  // The cost at the last position. Caches are read once, and one row of each is written.
  OpCost Cost(const OpTypes& types) const override {
    OpCost cost;
    cost.flops = 4 * Elements(types.inputs[Input::kKCache]);
    cost.bytes = static_cast<double>(
        6 * NumBytes(types.inputs[Input::kQ]) + NumBytes(types.inputs[Input::kKCache]) +
        NumBytes(types.inputs[Input::kVCache]) + NumBytes(types.inputs[Input::kPosition]));
    return cost;
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    for (int d : {0, 2}) {
      signatures.push_back({{S(d), S(d), S(d), S(d), S(d), B()}, {S(d), S(d), S(d)}});
    }
    return signatures;
  }

  // Along the rows of the caches, the softmax is completed between parts.
  std::vector<Signature> StatedSignatures(const OpTypes& types) const override {
    return {{{B(), B(), B(), S(1), S(1), B()}, {B(), S(1), S(1)}, /*in_parts=*/true}};
  }

  // Rows behind the position may have any values, so that they are left out by selection.
  std::vector<Tensor> RecordInParts(absl::Span<const Tensor> inputs,
                                    const Attributes& attributes) const override {
    const Tensor position = inputs[Input::kPosition];
    const DType cached = inputs[Input::kKCache].dtype(), dtype = StatisticDType(cached);
    const Shape mask = {inputs[Input::kKCache].dim(1), 1, 1};
    const Tensor at = RowMask(position, mask, /*up_to=*/false);
    const Tensor up_to = RowMask(position, mask, /*up_to=*/true);
    const Tensor k_cache = Select(at, inputs[Input::kK], inputs[Input::kKCache]);
    const Tensor v_cache = Select(at, inputs[Input::kV], inputs[Input::kVCache]);
    const auto constant = [&](double value) { return Fill(*position.graph(), {dtype, {}}, value); };
    const auto or_else = [&](Tensor x, double value) {
      return Select(up_to, InDType(x, dtype), constant(value));
    };
    // [B, T, H, D] -> scores [B, T, H, 1].
    const Tensor products = Multiply(InDType(inputs[Input::kQ], dtype), InDType(k_cache, dtype));
    const Tensor scores = Multiply(ReduceSum(products, {3}, /*keep_dims=*/true),
                                   constant(attributes.GetDouble("scale")));
    const Tensor counted = or_else(scores, -std::numeric_limits<double>::infinity());
    const Tensor maximum = ReduceMax(counted, {1}, /*keep_dims=*/true);
    const Tensor powers = Exp(Subtract(counted, maximum));
    const Tensor sum = ReduceSum(powers, {1}, /*keep_dims=*/true);
    const Tensor values = Multiply(powers, or_else(v_cache, 0));
    const Tensor output = Divide(ReduceSum(values, {1}, /*keep_dims=*/true), sum);
    return {InDType(output, inputs[Input::kQ].dtype()), k_cache, v_cache};
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    return {{Input::kKCache, Output::kKCache}, {Input::kVCache, Output::kVCache}};
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
  const std::vector<Tensor> outputs = RecordOperator(
      AttentionDecodeOperator(), {q, k, v, k_cache, v_cache, position}, {{"scale", scale}}, 3);
  return {outputs[AttentionDecodeOutput::kO], outputs[AttentionDecodeOutput::kKCache],
          outputs[AttentionDecodeOutput::kVCache]};
}

}  // namespace tessera
