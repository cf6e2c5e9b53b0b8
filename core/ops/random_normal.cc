#include <utility>

#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/random_draw.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class RandomNormalOp : public ElementwiseOperator {
 public:
  RandomNormalOp() : ElementwiseOperator("random_normal", 60) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"seed"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Is(0, {DType::kI64, {}}));
    ASSIGN_OR_RETURN(Shape shape, check.ShapeOf("shape"));
    RETURN_IF_ERROR(check.Has<DType>("dtype"));
    if (!IsFloating(attributes.GetDType("dtype"))) return check.Misfit("dtype", "floating");
    RETURN_IF_ERROR(check.Has<double>("mean"));
    RETURN_IF_ERROR(check.Has<double>("stddev"));
    // In a kernel request the path is absent: a request does not say which numbers are drawn.
    if (attributes.Has("random_path")) RETURN_IF_ERROR(check.Has<std::string>("random_path"));
    RETURN_IF_ERROR(CheckDrawnRegion(check, attributes, shape));
    return std::vector<TensorType>{{attributes.GetDType("dtype"), std::move(shape)}};
  }

  bool Differentiable(int input) const override { return false; }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    const Shape& shape = local.outputs[0].shape;
    Attributes result = WithDrawnRegion(attributes, shape, local.output_regions[0]);
    result.Set("shape", ShapeAttribute(shape));
    return result;
  }
};

}  // namespace

const Operator& RandomNormalOperator() {
  static const RandomNormalOp op;
  return op;
}

Tensor RandomNormal(Graph& graph, const TensorType& type, double mean, double stddev,
                    absl::string_view random_path) {
  return RecordSingleOutput(RandomNormalOperator(), {FindOrAddDrawKeyInput(graph, "seed")},
                            {{"shape", ShapeAttribute(type.shape)},
                             {"dtype", type.dtype},
                             {"mean", mean},
                             {"stddev", stddev},
                             {"random_path", std::string(random_path.data(), random_path.size())}});
}

}  // namespace tessera
