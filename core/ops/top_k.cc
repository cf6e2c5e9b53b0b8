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

class TopKOp : public Operator {
 public:
  absl::string_view name() const override { return "top_k"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    RETURN_IF_ERROR(check.MinRank(0, 1));
    RETURN_IF_ERROR(check.IntIn("k", 1, inputs[0].shape.back() + 1));
    Shape largest = inputs[0].shape;
    largest.back() = attributes.GetInt("k");
    return std::vector<TensorType>{{DType::kI32, largest}};
  }

  bool Differentiable(int input) const override { return false; }

  // Each element is compared with the smallest of those that are kept.
  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), Elements(types.inputs[0]));
  }

  // A row is not split: positions count from its first element.
  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures;
    const int rows = static_cast<int>(types.inputs[0].shape.size()) - 1;
    signatures.reserve(rows);
    for (int d = 0; d < rows; ++d) signatures.push_back({{S(d)}, {S(d)}});
    return signatures;
  }
};

}  // namespace

const Operator& TopKOperator() {
  static const TopKOp op;
  return op;
}

Tensor TopK(Tensor x, int64_t k) { return RecordSingleOutput(TopKOperator(), {x}, {{"k", k}}); }

}  // namespace tessera
