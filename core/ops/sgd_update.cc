#include "core/ops/sgd_update.h"

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
    RETURN_IF_ERROR(check.Floating(SgdInput::kParameter));
    const TensorType& parameter = inputs[SgdInput::kParameter];
    RETURN_IF_ERROR(check.Statistic(SgdInput::kParameter));
    RETURN_IF_ERROR(check.IsFloatingOfShape(SgdInput::kGradient, parameter.shape));
    if (momentum) RETURN_IF_ERROR(check.Is(SgdInput::kMomentum, parameter));
    RETURN_IF_ERROR(check.Is(SgdInput::Lr(momentum), {parameter.dtype, {}}));
    RETURN_IF_ERROR(check.Is(SgdInput::Scale(momentum), {parameter.dtype, {}}));
    RETURN_IF_ERROR(check.Is(SgdInput::Predicate(momentum), {DType::kU8, {}}));
    return std::vector<TensorType>(momentum ? 2 : 1, parameter);
  }

  bool IsStatistic(int input) const override { return input != SgdInput::kGradient; }

  absl::string_view OutputName(int i) const override {
    return i == SgdOutput::kParameter ? "" : "momentum";
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    std::vector<std::pair<int, int>> pairs = {{SgdInput::kParameter, SgdOutput::kParameter}};
    if (HasMomentum(types.attributes)) {
      pairs.emplace_back(SgdInput::kMomentum, SgdOutput::kMomentum);
    }
    return pairs;
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
      RecordOperator(SgdUpdateOperator(), inputs,
                     {{"momentum", options.momentum}, {"weight_decay", options.weight_decay}}, 2);
  return {outputs[SgdOutput::kParameter],
          options.momentum != 0 ? outputs[SgdOutput::kMomentum] : Tensor()};
}

}  // namespace tessera
