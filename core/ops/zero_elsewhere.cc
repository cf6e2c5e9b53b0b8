// Makes a split or broadcast tensor partial: each device has its own part, with zeros elsewhere.
// Lowering inserts this operator if a Plan needs a partial sum of a split tensor; no model records
// it.
#include <utility>

#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class ZeroElsewhereOp : public Operator {
 public:
  absl::string_view name() const override { return "zero_elsewhere"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    ASSIGN_OR_RETURN(Shape shape, check.ShapeOf("shape"));
    const Shape& x = inputs[0].shape;
    bool holds_x = shape.size() == x.size();
    for (size_t d = 0; holds_x && d < x.size(); ++d) holds_x = x[d] <= shape[d];
    if (!holds_x) {
      return check.Misfit("shape", absl::StrCat("of the rank of x, ", TypeToString(inputs[0]),
                                                ", and in no dimension below it"));
    }
    return std::vector<TensorType>{{inputs[0].dtype, std::move(shape)}};
  }

  bool Differentiable(int input) const override { return false; }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures = {{{sbp::P()}, {sbp::P()}}};
    for (size_t d = 0; d < types.inputs[0].shape.size(); ++d) {
      signatures.push_back({{sbp::S(static_cast<int>(d))}, {sbp::P()}});
    }
    return signatures;
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    const Shape& shape = local.outputs[0].shape;
    return {{"shape", ShapeAttribute(shape)}};
  }
};

}  // namespace

const Operator& ZeroElsewhereOperator() {
  static const ZeroElsewhereOp op;
  return op;
}

}  // namespace tessera
