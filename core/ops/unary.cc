// The operators exp, log, sqrt, rsqrt, reciprocal, negate, square, tanh, sigmoid.
#include "core/ops/unary.h"

#include "core/graph/autograd.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::StatusOr<std::vector<TensorType>> UnaryOperator::InferTypes(
    absl::Span<const TensorType> inputs, const Attributes& attributes) const {
  const InputCheck check({"x"}, inputs, attributes);
  RETURN_IF_ERROR(check.Count());
  RETURN_IF_ERROR(check.Floating(0));
  return std::vector<TensorType>{inputs[0]};
}

absl::Status UnaryOperator::Gradient(GradientBuilder& builder) const {
  builder.SetInputGradient(
      0, gradient_(builder.output_gradient(0), builder.input(0), builder.output(0)));
  return absl::OkStatus();
}

namespace {

using sbp::P;
using sbp::PLse;
using sbp::PMax;
using sbp::PMin;

Tensor ExpGradient(Tensor dy, Tensor x, Tensor y) { return Multiply(dy, y); }
Tensor LogGradient(Tensor dy, Tensor x, Tensor y) { return Divide(dy, x); }
Tensor SqrtGradient(Tensor dy, Tensor x, Tensor y) { return Divide(Scale(dy, 0.5), y); }
// -1/2 x^(-3/2)
Tensor RsqrtGradient(Tensor dy, Tensor x, Tensor y) {
  const Tensor half = Scale(dy, -0.5);
  return Multiply(half, Multiply(Square(y), y));
}
Tensor ReciprocalGradient(Tensor dy, Tensor x, Tensor y) { return Negate(Multiply(dy, Square(y))); }
Tensor NegateGradient(Tensor dy, Tensor x, Tensor y) { return Negate(dy); }
Tensor SquareGradient(Tensor dy, Tensor x, Tensor y) { return Multiply(Scale(dy, 2), x); }
Tensor TanhGradient(Tensor dy, Tensor x, Tensor y) {
  return Multiply(dy, AddConstant(Negate(Square(y)), 1));
}
Tensor SigmoidGradient(Tensor dy, Tensor x, Tensor y) {
  const Tensor share = Multiply(dy, y);
  return Multiply(share, AddConstant(Negate(y), 1));
}

// The power of a log-sum-exp is the sum of the powers.
std::vector<Signature> StatedOfExp() {
  std::vector<Signature> stated = OfIncreasing();
  stated.push_back({{PLse()}, {P()}});
  return stated;
}

}  // namespace

const Operator& ExpOperator() {
  static const UnaryOperator op("exp", 8, ExpGradient, {{}, StatedOfExp()});
  return op;
}

const Operator& LogOperator() {
  static const UnaryOperator op("log", 8, LogGradient, {{}, {{{PMin()}, {PMin()}}}});
  return op;
}

const Operator& SqrtOperator() {
  static const UnaryOperator op("sqrt", 1, SqrtGradient, {{}, {{{PMin()}, {PMin()}}}});
  return op;
}

const Operator& RsqrtOperator() {
  static const UnaryOperator op("rsqrt", 2, RsqrtGradient, {{}, {{{PMin()}, {PMax()}}}});
  return op;
}

const Operator& ReciprocalOperator() {
  static const UnaryOperator op("reciprocal", 1, ReciprocalGradient);
  return op;
}

const Operator& NegateOperator() {
  static const UnaryOperator op("negate", 1, NegateGradient, {{{{P()}, {P()}}}, OfDecreasing()});
  return op;
}

const Operator& SquareOperator() {
  static const UnaryOperator op("square", 1, SquareGradient);
  return op;
}

const Operator& TanhOperator() {
  static const UnaryOperator op("tanh", 10, TanhGradient, {{}, OfIncreasing()});
  return op;
}

const Operator& SigmoidOperator() {
  static const UnaryOperator op("sigmoid", 10, SigmoidGradient, {{}, OfIncreasing()});
  return op;
}

Tensor Exp(Tensor x) { return RecordSingleOutput(ExpOperator(), {x}); }
Tensor Log(Tensor x) { return RecordSingleOutput(LogOperator(), {x}); }
Tensor Sqrt(Tensor x) { return RecordSingleOutput(SqrtOperator(), {x}); }
Tensor Rsqrt(Tensor x) { return RecordSingleOutput(RsqrtOperator(), {x}); }
Tensor Reciprocal(Tensor x) { return RecordSingleOutput(ReciprocalOperator(), {x}); }
Tensor Negate(Tensor x) { return RecordSingleOutput(NegateOperator(), {x}); }
Tensor Square(Tensor x) { return RecordSingleOutput(SquareOperator(), {x}); }
Tensor Tanh(Tensor x) { return RecordSingleOutput(TanhOperator(), {x}); }
Tensor Sigmoid(Tensor x) { return RecordSingleOutput(SigmoidOperator(), {x}); }

}  // namespace tessera
