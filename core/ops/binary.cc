// The operators add, subtract, multiply, divide, maximum, minimum.
#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;
using sbp::PLse;
using sbp::PMax;
using sbp::PMin;

class BinaryOperator : public ElementwiseOperator {
 public:
  using GradientRule = void (*)(GradientBuilder&);

  BinaryOperator(absl::string_view name, PartialSignatures partial, GradientRule gradient)
      : ElementwiseOperator(name, 1, std::move(partial)), gradient_(gradient) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"a", "b"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Numeric(0));
    RETURN_IF_ERROR(check.SameDType(1, 0));
    ASSIGN_OR_RETURN(Shape shape, check.BroadcastShape());
    return std::vector<TensorType>{{inputs[0].dtype, std::move(shape)}};
  }

  absl::Status Gradient(GradientBuilder& builder) const override {
    gradient_(builder);
    return absl::OkStatus();
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override {
    std::vector<std::pair<int, int>> pairs;
    for (int i = 0; i < 2; ++i) {
      if (types.inputs[i] == types.outputs[0]) pairs.emplace_back(i, 0);
    }
    return pairs;
  }

 private:
  GradientRule gradient_;
};

// Integer division truncates, so only floating division is linear.
class DivideOp : public BinaryOperator {
 public:
  using BinaryOperator::BinaryOperator;
  std::vector<Signature> Signatures(const OpTypes& types) const override {
    std::vector<Signature> signatures = BinaryOperator::Signatures(types);
    if (IsFloating(types.outputs[0].dtype)) signatures.push_back({{P(), B()}, {P()}});
    return signatures;
  }
};

// A difference from a complete value is a sum with it; beside one it turns maxima into minima.
std::vector<Signature> StatedOfAdd() {
  return {{{PMax(), B()}, {PMax()}}, {{B(), PMax()}, {PMax()}}, {{PMin(), B()}, {PMin()}},
          {{B(), PMin()}, {PMin()}}, {{PLse(), B()}, {PLse()}}, {{B(), PLse()}, {PLse()}}};
}

std::vector<Signature> StatedOfSubtract() {
  return {{{PMax(), B()}, {PMax()}},
          {{B(), PMax()}, {PMin()}},
          {{PMin(), B()}, {PMin()}},
          {{B(), PMin()}, {PMax()}},
          {{PLse(), B()}, {PLse()}}};
}

// Sets the gradient of input i to `share`, summed over the dimensions in which the input was
// broadcast.
void Set(GradientBuilder& builder, int i, Tensor share) {
  builder.SetInputGradient(i, SumToShape(share, builder.input(i).shape()));
}

void AddGradient(GradientBuilder& builder) {
  const Tensor dy = builder.output_gradient(0);
  if (builder.needed(0)) Set(builder, 0, dy);
  if (builder.needed(1)) Set(builder, 1, dy);
}

void SubtractGradient(GradientBuilder& builder) {
  const Tensor dy = builder.output_gradient(0);
  if (builder.needed(0)) Set(builder, 0, dy);
  // Negated after the sum, which may have fewer elements.
  if (builder.needed(1)) {
    builder.SetInputGradient(1, Negate(SumToShape(dy, builder.input(1).shape())));
  }
}

void MultiplyGradient(GradientBuilder& builder) {
  const Tensor dy = builder.output_gradient(0);
  if (builder.needed(0)) Set(builder, 0, Multiply(dy, builder.input(1)));
  if (builder.needed(1)) Set(builder, 1, Multiply(dy, builder.input(0)));
}

void DivideGradient(GradientBuilder& builder) {
  const Tensor dy = builder.output_gradient(0), b = builder.input(1);
  const Tensor share = Divide(dy, b);
  if (builder.needed(0)) Set(builder, 0, share);
  // d(a / b) / db = -(a / b) / b
  if (builder.needed(1)) {
    const Tensor sum = SumToShape(Multiply(share, builder.output(0)), b.shape());
    builder.SetInputGradient(1, Negate(sum));
  }
}

// Passes dy to the larger of two values; equal values get half of it each.
void GiveToLarger(GradientBuilder& builder, Tensor a, Tensor b) {
  const Tensor dy = builder.output_gradient(0);
  const Tensor to_a = RecordSingleOutput(ReluGradOperator(), {dy, Subtract(a, b)});
  const Tensor to_b = RecordSingleOutput(ReluGradOperator(), {dy, Subtract(b, a)});
  const Tensor half_of_ties = Scale(Subtract(Subtract(dy, to_a), to_b), 0.5);
  if (builder.needed(0)) Set(builder, 0, Add(to_a, half_of_ties));
  if (builder.needed(1)) Set(builder, 1, Add(to_b, half_of_ties));
}

void MaximumGradient(GradientBuilder& builder) {
  GiveToLarger(builder, builder.input(0), builder.input(1));
}

void MinimumGradient(GradientBuilder& builder) {
  GiveToLarger(builder, Negate(builder.input(0)), Negate(builder.input(1)));
}

}  // namespace

const Operator& AddOperator() {
  static const BinaryOperator op("add", {{{{P(), P()}, {P()}}}, {}, StatedOfAdd()}, AddGradient);
  return op;
}

const Operator& SubtractOperator() {
  static const BinaryOperator op("subtract", {{{{P(), P()}, {P()}}}, {}, StatedOfSubtract()},
                                 SubtractGradient);
  return op;
}

const Operator& MultiplyOperator() {
  static const BinaryOperator op("multiply", {{{{P(), B()}, {P()}}, {{B(), P()}, {P()}}}},
                                 MultiplyGradient);
  return op;
}

const Operator& DivideOperator() {
  static const DivideOp op("divide", {}, DivideGradient);
  return op;
}

const Operator& MaximumOperator() {
  static const BinaryOperator op(
      "maximum",
      {{{{PMax(), PMax()}, {PMax()}}, {{PMax(), B()}, {PMax()}}, {{B(), PMax()}, {PMax()}}},
       {{{PMin(), B()}, {PMin()}}, {{B(), PMin()}, {PMin()}}}},
      MaximumGradient);
  return op;
}

const Operator& MinimumOperator() {
  static const BinaryOperator op("minimum",
                                 {{},
                                  {{{PMin(), PMin()}, {PMin()}},
                                   {{PMin(), B()}, {PMin()}},
                                   {{B(), PMin()}, {PMin()}},
                                   {{PMax(), B()}, {PMax()}},
                                   {{B(), PMax()}, {PMax()}}}},
                                 MinimumGradient);
  return op;
}

Tensor Add(Tensor a, Tensor b) { return RecordSingleOutput(AddOperator(), {a, b}); }
Tensor Subtract(Tensor a, Tensor b) { return RecordSingleOutput(SubtractOperator(), {a, b}); }
Tensor Multiply(Tensor a, Tensor b) { return RecordSingleOutput(MultiplyOperator(), {a, b}); }
Tensor Divide(Tensor a, Tensor b) { return RecordSingleOutput(DivideOperator(), {a, b}); }
Tensor Maximum(Tensor a, Tensor b) { return RecordSingleOutput(MaximumOperator(), {a, b}); }
Tensor Minimum(Tensor a, Tensor b) { return RecordSingleOutput(MinimumOperator(), {a, b}); }

}  // namespace tessera
