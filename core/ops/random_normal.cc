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
    RETURN_IF_ERROR(check.ShapeAttribute("shape"));
    RETURN_IF_ERROR(check.Has<DType>("dtype"));
    if (!IsFloating(attributes.GetDType("dtype"))) return check.Misfit("dtype", "floating");
    RETURN_IF_ERROR(check.Has<double>("mean"));
    RETURN_IF_ERROR(check.Has<double>("stddev"));
    RETURN_IF_ERROR(check.Has<std::string>("random_path"));
    const std::vector<int64_t>& sizes = attributes.GetInts("shape");
    const Shape shape(sizes.begin(), sizes.end());
    RETURN_IF_ERROR(CheckDrawnRegion(check, attributes, shape));
    return std::vector<TensorType>{{attributes.GetDType("dtype"), shape}};
  }

  bool Differentiable(int input) const override { return false; }

  Attributes LocalAttributes(const Attributes& attributes,
                             absl::Span<const TensorType> local_outputs,
                             absl::Span<const Region> output_regions) const override {
    const Shape& shape = local_outputs[0].shape;
    Attributes local = WithDrawnRegion(attributes, shape, output_regions[0]);
    local.Set("shape", std::vector<int64_t>(shape.begin(), shape.end()));
    return local;
  }
};

}  // namespace

const Operator& RandomNormalOperator() {
  static const RandomNormalOp op;
  return op;
}

Tensor RandomNormal(Graph& graph, const TensorType& type, double mean, double stddev,
                    absl::string_view random_path) {
  return RecordUse1(RandomNormalOperator(), {DrawInput(graph, "seed")},
                    {{"shape", std::vector<int64_t>(type.shape.begin(), type.shape.end())},
                     {"dtype", type.dtype},
                     {"mean", mean},
                     {"stddev", stddev},
                     {"random_path", std::string(random_path.data(), random_path.size())}});
}

}  // namespace tessera
