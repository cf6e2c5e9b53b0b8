// The operators as which layer_norm and layer_norm_grad are computed along an axis that splits the
// last dimension. A device has a part of each row, and between these operators the sums over the
// parts of a row are added up:
//
//   mean = layer_norm_sum / columns
//   rstd = 1 / sqrt(layer_norm_squares / columns + eps)
//   y = layer_norm_apply
//   change, normal_change = layer_norm_grad_sums / columns
//   dx, dweight, dbias = layer_norm_grad_apply
//
// `columns` is the size of the complete row, which no operator here sees. First comes the sum, then
// the squares of distances from the mean: the variance as E[x^2] - mean^2 would need one addition
// over parts less, but loses all digits of a small variance beside a large mean.
//
// They have no gradient: the gradient of layer_norm is layer_norm_grad.
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/layer_norm.h"
#include "core/ops/normalized_rows.h"
#include "core/ops/operators.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;
using sbp::S;

// Returns split(S(d)) for each dimension d of the rows of x.
template <typename Split>
std::vector<Signature> SplitRows(const TensorType& x, const Split& split) {
  std::vector<Signature> signatures;
  for (int d = 0; d + 1 < static_cast<int>(x.shape.size()); ++d) signatures.push_back(split(S(d)));
  return signatures;
}

// Returns a split of the last dimension of x.
AxisLayout SplitColumns(const TensorType& x) { return S(static_cast<int>(x.shape.size()) - 1); }

class LayerNormSumOp : public Operator {
  using Input = LayerNormSumInput;

 public:
  absl::string_view name() const override { return "layer_norm_sum"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckNormalized(check, Input::kX));
    return std::vector<TensorType>{StatisticOfRows(inputs[Input::kX])};
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), Elements(types.inputs[Input::kX]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const TensorType& x = types.inputs[Input::kX];
    std::vector<Signature> signatures = SplitRows(x, [](AxisLayout s) -> Signature {
      return {{s}, {s}};
    });
    signatures.push_back({{SplitColumns(x)}, {P()}});
    signatures.push_back({{P()}, {P()}});
    return signatures;
  }
};

class LayerNormSquaresOp : public Operator {
  using Input = LayerNormSquaresInput;

 public:
  absl::string_view name() const override { return "layer_norm_squares"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x", "mean"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckNormalized(check, Input::kX));
    RETURN_IF_ERROR(check.Is(Input::kMean, StatisticOfRows(inputs[Input::kX])));
    return std::vector<TensorType>{inputs[Input::kMean]};
  }

  bool IsStatistic(int input) const override { return input == Input::kMean; }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 3 * Elements(types.inputs[Input::kX]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const TensorType& x = types.inputs[Input::kX];
    std::vector<Signature> signatures = SplitRows(x, [](AxisLayout s) -> Signature {
      return {{s, s}, {s}};
    });
    signatures.push_back({{SplitColumns(x), B()}, {P()}});
    return signatures;
  }
};

class LayerNormApplyOp : public Operator {
  using Input = LayerNormApplyInput;

 public:
  absl::string_view name() const override { return "layer_norm_apply"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"x", "mean", "rstd", "weight", "bias"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckNormalized(check, Input::kX));
    const TensorType& x = inputs[Input::kX];
    for (int i : {Input::kMean, Input::kRstd}) {
      RETURN_IF_ERROR(check.Is(i, StatisticOfRows(x)));
    }
    for (int i : {Input::kWeight, Input::kBias}) {
      RETURN_IF_ERROR(check.Is(i, WeightOfColumns(x)));
    }
    return std::vector<TensorType>{x};
  }

  bool IsStatistic(int input) const override {
    return input == Input::kMean || input == Input::kRstd;
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 4 * Elements(types.inputs[Input::kX]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const TensorType& x = types.inputs[Input::kX];
    std::vector<Signature> signatures = SplitRows(x, [](AxisLayout s) -> Signature {
      return {{s, s, s, B(), B()}, {s}};
    });
    const AxisLayout columns = SplitColumns(x);
    signatures.push_back({{columns, B(), B(), S(0), S(0)}, {columns}});
    return signatures;
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

// Checks the inputs that both operators of the gradient have first, at these positions.
absl::Status CheckGradient(const InputCheck& check, absl::Span<const TensorType> inputs) {
  using Input = LayerNormGradSumsInput;
  static_assert(Input::kRstd == static_cast<int>(LayerNormGradApplyInput::kRstd));
  RETURN_IF_ERROR(CheckNormalized(check, Input::kDy));
  const TensorType& dy = inputs[Input::kDy];
  RETURN_IF_ERROR(check.Is(Input::kX, dy));
  RETURN_IF_ERROR(check.Is(Input::kWeight, WeightOfColumns(dy)));
  for (int i : {Input::kMean, Input::kRstd}) RETURN_IF_ERROR(check.Is(i, StatisticOfRows(dy)));
  return absl::OkStatus();
}

class LayerNormGradSumsOp : public Operator {
  using Input = LayerNormGradSumsInput;

 public:
  absl::string_view name() const override { return "layer_norm_grad_sums"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "x", "weight", "mean", "rstd"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckGradient(check, inputs));
    return std::vector<TensorType>{inputs[Input::kMean], inputs[Input::kMean]};
  }

  absl::string_view OutputName(int i) const override {
    return i == LayerNormGradSumsOutput::kChange ? "change" : "normal_change";
  }

  bool IsStatistic(int input) const override {
    return input == Input::kMean || input == Input::kRstd;
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 6 * Elements(types.inputs[Input::kDy]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const TensorType& dy = types.inputs[Input::kDy];
    std::vector<Signature> signatures = SplitRows(dy, [](AxisLayout s) -> Signature {
      return {{s, s, B(), s, s}, {s, s}};
    });
    const AxisLayout columns = SplitColumns(dy);
    signatures.push_back({{columns, columns, S(0), B(), B()}, {P(), P()}});
    signatures.push_back({{P(), B(), B(), B(), B()}, {P(), P()}});
    return signatures;
  }
};

class LayerNormGradApplyOp : public Operator {
  using Input = LayerNormGradApplyInput;
  using Output = LayerNormGradApplyOutput;

 public:
  absl::string_view name() const override { return "layer_norm_grad_apply"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "x", "weight", "mean", "rstd", "change", "normal_change"}, inputs,
                           attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(CheckGradient(check, inputs));
    for (int i : {Input::kChange, Input::kNormalChange}) {
      RETURN_IF_ERROR(check.Is(i, inputs[Input::kMean]));
    }
    return std::vector<TensorType>{inputs[Input::kDy], inputs[Input::kWeight],
                                   inputs[Input::kWeight]};
  }

  absl::string_view OutputName(int i) const override {
    return i == Output::kDx ? "dx" : i == Output::kDweight ? "dweight" : "dbias";
  }

  bool IsStatistic(int input) const override { return input >= Input::kMean; }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), 10 * Elements(types.inputs[Input::kDy]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const TensorType& dy = types.inputs[Input::kDy];
    std::vector<Signature> signatures = SplitRows(dy, [](AxisLayout s) -> Signature {
      return {{s, s, B(), s, s, s, s}, {s, P(), P()}};
    });
    const AxisLayout columns = SplitColumns(dy);
    signatures.push_back({{columns, columns, S(0), B(), B(), B(), B()}, {columns, S(0), S(0)}});
    // Linear in dy and its sums together.
    signatures.push_back({{P(), B(), B(), B(), B(), P(), P()}, {P(), P(), P()}});
    return signatures;
  }

  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }
};

}  // namespace

const Operator& LayerNormSumOperator() {
  static const LayerNormSumOp op;
  return op;
}

const Operator& LayerNormSquaresOperator() {
  static const LayerNormSquaresOp op;
  return op;
}

const Operator& LayerNormApplyOperator() {
  static const LayerNormApplyOp op;
  return op;
}

const Operator& LayerNormGradSumsOperator() {
  static const LayerNormGradSumsOp op;
  return op;
}

const Operator& LayerNormGradApplyOperator() {
  static const LayerNormGradApplyOp op;
  return op;
}

}  // namespace tessera
