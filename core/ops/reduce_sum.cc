#include "core/graph/autograd.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/reduction.h"
#include "core/ops/signatures.h"

namespace tessera {
namespace {

class ReduceSumOp : public ReductionOperator {
 public:
  ReduceSumOp() : ReductionOperator("reduce_sum", sbp::P()) {}

  absl::Status Gradient(GradientBuilder& builder) const override {
    // A copy, because recording invalidates references to a handle's shape().
    const Shape shape = builder.input(0).shape();
    const std::vector<int64_t>& axes = builder.attributes().GetInts("axes");
    const bool leading = axes.back() + 1 == static_cast<int64_t>(axes.size());
    Tensor dy = builder.output_gradient(0);
    // Broadcasting alone adds only leading dimensions.
    if (!leading && !builder.attributes().GetBool("keep_dims")) {
      dy = Reshape(dy, ReducedShape(shape, builder.attributes(), /*keep_dims=*/true));
    }
    builder.SetInputGradient(0, Expand(dy, shape));
    return absl::OkStatus();
  }
};

}  // namespace

const Operator& ReduceSumOperator() {
  static const ReduceSumOp op;
  return op;
}

Tensor ReduceSum(Tensor x, absl::Span<const int64_t> axes, bool keep_dims) {
  if (axes.empty()) return x;
  return RecordSingleOutput(ReduceSumOperator(), {x}, ReductionAttributes(x, axes, keep_dims));
}

}  // namespace tessera
