#include "core/ops/adamw_update.h"

#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

class AdamwUpdateOp : public ElementwiseOperator {
  using Input = AdamwInput;
  using Output = AdamwOutput;

 public:
  AdamwUpdateOp() : ElementwiseOperator("adamw_update", 16) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"parameter", "gradient", "m", "v", "lr", "scale", "step", "predicate"},
                           inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kParameter));
    const TensorType& parameter = inputs[Input::kParameter];
    RETURN_IF_ERROR(check.Statistic(Input::kParameter));
    RETURN_IF_ERROR(check.IsFloatingOfShape(Input::kGradient, parameter.shape));
    for (int i : {Input::kM, Input::kV}) RETURN_IF_ERROR(check.Is(i, parameter));
    RETURN_IF_ERROR(check.Is(Input::kLr, {parameter.dtype, {}}));
    RETURN_IF_ERROR(check.Is(Input::kScale, {parameter.dtype, {}}));
    RETURN_IF_ERROR(check.Is(Input::kStep, {DType::kI64, {}}));
    RETURN_IF_ERROR(check.Is(Input::kPredicate, {DType::kU8, {}}));
    for (const char* beta : {"beta1", "beta2"}) {
      RETURN_IF_ERROR(check.Has<double>(beta));
      const double value = attributes.GetDouble(beta);
      if (!(value >= 0 && value < 1)) return check.Misfit(beta, "at least 0 and less than 1");
    }
    RETURN_IF_ERROR(check.Has<double>("eps"));
    RETURN_IF_ERROR(check.Has<double>("weight_decay"));
    return std::vector<TensorType>(3, parameter);
  }

  bool IsStatistic(int input) const override { return input != Input::kGradient; }

  absl::string_view OutputName(int i) const override {
    return i == Output::kParameter ? "" : i == Output::kM ? "m" : "v";
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    return {
        {Input::kParameter, Output::kParameter}, {Input::kM, Output::kM}, {Input::kV, Output::kV}};
  }
};

}  // namespace

const Operator& AdamwUpdateOperator() {
  static const AdamwUpdateOp op;
  return op;
}

AdamwResult AdamwUpdate(Tensor parameter, Tensor gradient, Tensor m, Tensor v, Tensor lr,
                        Tensor scale, Tensor step, Tensor predicate, const AdamwOptions& options) {
  const std::vector<Tensor> outputs =
      RecordOperator(AdamwUpdateOperator(), {parameter, gradient, m, v, lr, scale, step, predicate},
                     {{"beta1", options.beta1},
                      {"beta2", options.beta2},
                      {"eps", options.eps},
                      {"weight_decay", options.weight_decay}},
                     3);
  return {outputs[AdamwOutput::kParameter], outputs[AdamwOutput::kM], outputs[AdamwOutput::kV]};
}

}  // namespace tessera
