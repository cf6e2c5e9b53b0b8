#include "core/ops/top_k_correct.h"

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

using sbp::S;

class TopKCorrectOp : public Operator {
  using Input = TopKCorrectInput;

 public:
  absl::string_view name() const override { return "top_k_correct"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"logits", "targets"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kLogits));
    RETURN_IF_ERROR(check.MinRank(Input::kLogits, 1));
    const TensorType& logits = inputs[Input::kLogits];
    const Shape rows(logits.shape.begin(), logits.shape.end() - 1);
    RETURN_IF_ERROR(check.Is(Input::kTargets, {DType::kI32, rows}));
    RETURN_IF_ERROR(check.IntIn("k", 1, logits.shape.back() + 1));
    return std::vector<TensorType>{{StatisticDType(logits.dtype), rows}};
  }

  bool Differentiable(int input) const override { return false; }
  bool IsContinuous() const override { return false; }

  // Each logit is compared with the target's, and counted.
  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 2 * Elements(types.inputs[Input::kLogits]));
  }

  // A row is not split: every logit is compared with the one of the target.
  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    const int rank = static_cast<int>(types.inputs[Input::kTargets].shape.size());
    signatures.reserve(rank);
    for (int d = 0; d < rank; ++d) signatures.push_back({{S(d), S(d)}, {S(d)}});
    return signatures;
  }
};

}  // namespace

const Operator& TopKCorrectOperator() {
  static const TopKCorrectOp op;
  return op;
}

Tensor TopKCorrect(Tensor logits, Tensor targets, int64_t k) {
  return RecordSingleOutput(TopKCorrectOperator(), {logits, targets}, {{"k", k}});
}

}  // namespace tessera
