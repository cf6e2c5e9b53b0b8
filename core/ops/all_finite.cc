#include <algorithm>

#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

// Parts combine by a logical and, which is the minimum of 0s and 1s.
class AllFiniteOp : public Operator {
 public:
  absl::string_view name() const override { return "all_finite"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    for (int i = 0; i < static_cast<int>(inputs.size()); ++i) RETURN_IF_ERROR(check.Floating(i));
    return std::vector<TensorType>{{DType::kU8, {}}};
  }

  bool Differentiable(int input) const override { return false; }
  bool TakesEmptyInputs() const override { return true; }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    Signature signature{std::vector<AxisLayout>(types.inputs.size()), {sbp::PMin()}};
    std::vector<Signature> signatures;
    double combinations = 1;
    int64_t rank = 0;
    for (const TensorType& input : types.inputs) {
      combinations *= 1.0 + static_cast<double>(input.shape.size());
      rank = std::max<int64_t>(rank, static_cast<int64_t>(input.shape.size()));
    }
    if (combinations <= kMostCombinations) {
      SplitFrom(types, 0, signature, signatures);
      return signatures;
    }
    for (int d = 0; d < rank; ++d) {
      for (size_t i = 0; i < types.inputs.size(); ++i) {
        const bool has_dim = d < static_cast<int>(types.inputs[i].shape.size());
        signature.inputs[i] = has_dim ? sbp::S(d) : sbp::B();
      }
      signatures.push_back(signature);
    }
    return signatures;
  }

  OpCost Cost(const OpTypes& types) const override {
    double elements = 0;
    for (const TensorType& input : types.inputs) elements += Elements(input);
    return WithFlops(Operator::Cost(types), elements);
  }

 private:
  // If there are more combinations, all inputs are split along the same dimension.
  static constexpr double kMostCombinations = 256;

  // Adds `signature` with each combination of splits of the inputs from `first` on, fewer splits
  // first. The combination in which all inputs are B is left out, because the output is not partial
  // then.
  static void SplitFrom(const OpTypes& types, size_t first, const Signature& signature,
                        std::vector<Signature>& signatures) {
    if (first == types.inputs.size()) {
      const bool split = std::any_of(signature.inputs.begin(), signature.inputs.end(),
                                     [](const AxisLayout& input) { return input.split(); });
      if (split) signatures.push_back(signature);
      return;
    }
    SplitFrom(types, first + 1, signature, signatures);
    for (int d = 0; d < static_cast<int>(types.inputs[first].shape.size()); ++d) {
      Signature split = signature;
      split.inputs[first] = sbp::S(d);
      SplitFrom(types, first + 1, split, signatures);
    }
  }
};

}  // namespace

const Operator& AllFiniteOperator() {
  static const AllFiniteOp op;
  return op;
}

Tensor AllFinite(absl::Span<const Tensor> values) {
  return RecordSingleOutput(AllFiniteOperator(), values);
}

}  // namespace tessera
