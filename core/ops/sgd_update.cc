#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class SgdUpdateOp : public ElementwiseOperator {
 public:
  SgdUpdateOp() : ElementwiseOperator("sgd_update", 6) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck of_attributes({}, inputs, attributes);
    RETURN_IF_ERROR(of_attributes.Has<double>("momentum"));
    RETURN_IF_ERROR(of_attributes.Has<double>("weight_decay"));
    const bool momentum = HasMomentum(attributes);
    const InputCheck check =
        momentum
            ? InputCheck({"parameter", "gradient", "momentum", "lr", "scale", "predicate"}, inputs,
                         attributes)
            : InputCheck({"parameter", "gradient", "lr", "scale", "predicate"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(0));
    const TensorType& parameter = inputs[0];
    const int lr = momentum ? 3 : 2;
    for (int i = 1; i < lr; ++i) RETURN_IF_ERROR(check.Is(i, parameter));
    RETURN_IF_ERROR(check.Is(lr, {parameter.dtype, {}}));
    RETURN_IF_ERROR(check.Is(lr + 1, {parameter.dtype, {}}));
    RETURN_IF_ERROR(check.Is(lr + 2, {DType::kU8, {}}));
    return std::vector<TensorType>(momentum ? 2 : 1, parameter);
  }

  absl::string_view OutputName(int i) const override { return i == 0 ? "" : "momentum"; }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    if (HasMomentum(types.attributes)) return {{0, 0}, {2, 1}};
    return {{0, 0}};
  }

 private:
  static bool HasMomentum(const Attributes& attributes) {
    return attributes.GetDouble("momentum") != 0;
  }
};

}  // namespace

const Operator& SgdUpdateOperator() {
  static const SgdUpdateOp op;
  return op;
}

SgdResult SgdUpdate(Tensor parameter, Tensor gradient, Tensor momentum, Tensor lr, Tensor scale,
                    Tensor predicate, const SgdOptions& options) {
  std::vector<Tensor> inputs = {parameter, gradient};
  if (options.momentum != 0) inputs.push_back(momentum);
  inputs.insert(inputs.end(), {lr, scale, predicate});
  const std::vector<Tensor> outputs =
      RecordUse(SgdUpdateOperator(), inputs,
                {{"momentum", options.momentum}, {"weight_decay", options.weight_decay}}, 2);
  return {outputs[0], options.momentum != 0 ? outputs[1] : Tensor()};
}

}  // namespace tessera
