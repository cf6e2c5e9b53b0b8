#include "core/graph/testing/operators.h"

#include "absl/strings/str_cat.h"

namespace tessera::testing_operators {
namespace {

using Types = absl::StatusOr<std::vector<TensorType>>;

class PlusOp : public Operator {
 public:
  absl::string_view name() const override { return "plus"; }
  Types InferTypes(absl::Span<const TensorType> inputs, const Attributes&) const override {
    if (inputs[0] != inputs[1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("a is ", TypeToString(inputs[0]), ", b ", TypeToString(inputs[1])));
    }
    return std::vector<TensorType>{inputs[0]};
  }
  absl::Status Gradient(GradientBuilder& builder) const override {
    builder.SetInputGradient(0, builder.output_gradient(0));
    builder.SetInputGradient(1, builder.output_gradient(0));
    return absl::OkStatus();
  }
};

class TimesOp : public PlusOp {
 public:
  absl::string_view name() const override { return "times"; }
  absl::Status Gradient(GradientBuilder& builder) const override {
    for (int i = 0; i < 2; ++i) {
      if (!builder.needed(i)) continue;
      builder.SetInputGradient(i, Times(builder.output_gradient(0), builder.input(1 - i)));
    }
    return absl::OkStatus();
  }
};

class JoinOp : public Operator {
 public:
  absl::string_view name() const override { return "join"; }
  Types InferTypes(absl::Span<const TensorType> inputs, const Attributes&) const override {
    return std::vector<TensorType>{{inputs[0].dtype, {inputs[0].shape[0] + inputs[1].shape[0]}}};
  }
};

class HalveOp : public Operator {
 public:
  absl::string_view name() const override { return "halve"; }
  Types InferTypes(absl::Span<const TensorType> inputs, const Attributes&) const override {
    const int64_t size = inputs[0].shape[0];
    if (size % 2 != 0) return absl::InvalidArgumentError(absl::StrCat(size, " is odd"));
    return std::vector<TensorType>(2, {inputs[0].dtype, {size / 2}});
  }
  absl::string_view OutputName(int i) const override { return i == 0 ? "low" : "high"; }
  absl::Status Gradient(GradientBuilder& builder) const override {
    static const JoinOp join;
    std::vector<Tensor> parts;
    for (int i = 0; i < 2; ++i) {
      const Tensor part = builder.output_gradient(i);
      parts.push_back(part.valid() ? part : Constant(builder.graph(), builder.output(i).type(), 0));
    }
    builder.SetInputGradient(0, builder.graph().Record1(join, parts));
    return absl::OkStatus();
  }
};

class SpreadOp : public Operator {
 public:
  absl::string_view name() const override { return "spread"; }
  Types InferTypes(absl::Span<const TensorType> inputs, const Attributes&) const override {
    return std::vector<TensorType>{inputs[1]};
  }
};

class ScoreOp : public Operator {
 public:
  absl::string_view name() const override { return "score"; }
  Types InferTypes(absl::Span<const TensorType> inputs, const Attributes&) const override {
    return std::vector<TensorType>{{inputs[0].dtype, {}}};
  }
  bool Differentiable(int input) const override { return input == 0; }
  absl::Status Gradient(GradientBuilder& builder) const override {
    static const SpreadOp spread;
    builder.SetInputGradient(
        0, builder.graph().Record1(spread, {builder.output_gradient(0), builder.input(0)}));
    return absl::OkStatus();
  }
};

class RoundOp : public Operator {
 public:
  absl::string_view name() const override { return "round"; }
  Types InferTypes(absl::Span<const TensorType> inputs, const Attributes&) const override {
    return std::vector<TensorType>{inputs[0]};
  }
};

class ConstantOp : public Operator {
 public:
  absl::string_view name() const override { return "constant"; }
  Types InferTypes(absl::Span<const TensorType>, const Attributes& attributes) const override {
    const std::vector<int64_t>& shape = attributes.GetInts("shape");
    return std::vector<TensorType>{
        {attributes.GetDType("dtype"), Shape(shape.begin(), shape.end())}};
  }
};

}  // namespace

Tensor Plus(Tensor a, Tensor b) {
  static const PlusOp kind;
  return a.valid() ? a.graph()->Record1(kind, {a, b}) : a;
}

Tensor Times(Tensor a, Tensor b) {
  static const TimesOp kind;
  return a.valid() ? a.graph()->Record1(kind, {a, b}) : a;
}

std::vector<Tensor> Halve(Tensor x) {
  static const HalveOp kind;
  return x.graph()->Record(kind, {x});
}

Tensor Score(Tensor x, Tensor labels) {
  static const ScoreOp kind;
  return x.graph()->Record1(kind, {x, labels});
}

Tensor Round(Tensor x) {
  static const RoundOp kind;
  return x.graph()->Record1(kind, {x});
}

Tensor Constant(Graph& graph, const TensorType& type, double value) {
  static const ConstantOp kind;
  return graph.Record1(kind, {},
                       {{"dtype", type.dtype},
                        {"shape", std::vector<int64_t>(type.shape.begin(), type.shape.end())},
                        {"value", value}});
}

}  // namespace tessera::testing_operators
