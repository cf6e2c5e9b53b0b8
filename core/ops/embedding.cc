#include "core/ops/embedding.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/graph/autograd.h"
#include "core/ops/elementwise.h"
#include "core/ops/input_check.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {
namespace {

using sbp::B;
using sbp::P;
using sbp::S;

class EmbeddingOp : public Operator {
  using Input = EmbeddingInput;

 public:
  absl::string_view name() const override { return "embedding"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"table", "ids"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kTable));
    if (inputs[Input::kTable].shape.size() != 2)
      return check.Misfit(Input::kTable, "of rank 2, [V, C]");
    if (inputs[Input::kIds].dtype != DType::kI32) return check.Misfit(Input::kIds, "i32");
    Shape y = inputs[Input::kIds].shape;
    y.push_back(inputs[Input::kTable].shape[1]);
    return std::vector<TensorType>{{inputs[Input::kTable].dtype, std::move(y)}};
  }

  bool Differentiable(int input) const override { return input == Input::kTable; }

  absl::Status Gradient(GradientBuilder& builder) const override {
    Attributes attributes = builder.attributes();
    attributes.Set("rows", builder.input(Input::kTable).dim(0));
    builder.SetInputGradient(
        Input::kTable,
        RecordSingleOutput(EmbeddingGradOperator(),
                           {builder.output_gradient(0), builder.input(Input::kIds)}, attributes));
    return absl::OkStatus();
  }

  // Only the rows of the given ids are read.
  OpCost Cost(const OpTypes& types) const override {
    const int64_t rows =
        std::min(NumBytes(types.inputs[Input::kTable]), NumBytes(types.outputs[0]));
    OpCost cost;
    cost.bytes = static_cast<double>(rows + NumBytes(types.inputs[Input::kIds]) +
                                     NumBytes(types.outputs[0]));
    return cost;
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int rank = static_cast<int>(types.inputs[Input::kIds].shape.size());
    std::vector<Signature> signatures;
    signatures.reserve(rank + 3);
    for (int d = 0; d < rank; ++d) signatures.push_back({{B(), S(d)}, {S(d)}});
    signatures.push_back({{S(1), B()}, {S(rank)}});
    signatures.push_back({{P(), B()}, {P()}});
    // Split by rows: an id whose row is on another device gives zeros here.
    signatures.push_back({{S(0), B()}, {P()}});
    return signatures;
  }
};

class EmbeddingGradOp : public Operator {
  using Input = EmbeddingGradInput;

 public:
  absl::string_view name() const override { return "embedding_grad"; }

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override {
    const InputCheck check({"dy", "ids"}, inputs, attributes);
    RETURN_IF_ERROR(check.Count());
    RETURN_IF_ERROR(check.Floating(Input::kDy));
    RETURN_IF_ERROR(check.MinRank(Input::kDy, 1));
    const Shape& dy = inputs[Input::kDy].shape;
    RETURN_IF_ERROR(check.Is(Input::kIds, {DType::kI32, Shape(dy.begin(), dy.end() - 1)}));
    RETURN_IF_ERROR(check.IntIn("rows", 0, int64_t{1} << 40));
    return std::vector<TensorType>{
        {inputs[Input::kDy].dtype, {attributes.GetInt("rows"), dy.back()}}};
  }

  OpCost Cost(const OpTypes& types) const override {
    return WithFlops(Operator::Cost(types), Elements(types.inputs[Input::kDy]));
  }

  std::vector<Signature> Signatures(const OpTypes& types) const override {
    const int rank = static_cast<int>(types.inputs[Input::kIds].shape.size());
    std::vector<Signature> signatures;
    signatures.reserve(rank + 3);
    for (int d = 0; d < rank; ++d) signatures.push_back({{S(d), S(d)}, {P()}});
    signatures.push_back({{S(rank), B()}, {S(1)}});
    signatures.push_back({{P(), B()}, {P()}});
    signatures.push_back({{B(), B()}, {S(0)}});
    return signatures;
  }

  Attributes LocalAttributes(const Attributes& attributes, const LocalUse& local) const override {
    Attributes result = attributes;
    result.Set("rows", local.outputs[0].shape[0]);
    return result;
  }
};

}  // namespace

const Operator& EmbeddingOperator() {
  static const EmbeddingOp op;
  return op;
}

const Operator& EmbeddingGradOperator() {
  static const EmbeddingGradOp op;
  return op;
}

Tensor Embedding(Tensor table, Tensor ids) {
  return RecordSingleOutput(EmbeddingOperator(), {table, ids});
}

}  // namespace tessera
