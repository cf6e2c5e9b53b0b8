#include "tests/operators/loss_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/ops/ops.h"
#include "core/tensor/random.h"

namespace tessera::operator_tests {
namespace {

// Declares an input such that the operator reads `values`.
Tensor DeclareInput(const std::string& name, const TensorType& type,
                    const std::vector<double>& values, Front front, LossGraph& loss) {
  const int rank = static_cast<int>(type.shape.size());
  if (front == Front::kNone || rank == 0) {
    loss.declared.push_back(loss.graph.Input(name, type));
    loss.given[name] = values;
    return loss.declared.back();
  }
  // One more element along the last dimension, and all dimensions in reverse order.
  TensorType larger = type;
  larger.shape.back() += 1;
  std::reverse(larger.shape.begin(), larger.shape.end());
  const Tensor surrounding = loss.graph.Input(name, larger);
  loss.declared.push_back(surrounding);
  std::vector<int64_t> reversed;
  for (int d = rank - 1; d >= 0; --d) reversed.push_back(d);
  const Tensor view = Split(Transpose(surrounding, reversed), rank - 1, {1, type.shape.back()})[1];

  std::vector<double>& given = loss.given[name];
  given.assign(NumElements(larger.shape), 1);
  const Strides strides = RowMajorStrides(larger.shape), own = RowMajorStrides(type.shape);
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    int64_t at = strides[0];  // past the element that is split off
    for (int d = 0; d < rank; ++d) at += i / own[d] % type.shape[d] * strides[rank - 1 - d];
    given[at] = values[i];
  }
  return view;
}

// Returns sum(output * weights), in the dtype for which every backend has all kernels.
Tensor Weighed(Tensor output, const std::string& name, LossGraph& loss) {
  const Tensor wide = output.dtype() == DType::kF32 ? output : Cast(output, DType::kF32);
  const Tensor weights = loss.graph.Input(name, wide.type());
  std::vector<double>& values = loss.given[name];
  for (int64_t i = 0; i < NumElements(wide.shape()); ++i) {
    values.push_back(RandomNormal(MakeStream(2, name), 0, i));
  }
  std::vector<int64_t> axes;
  for (int d = 0; d < wide.rank(); ++d) axes.push_back(d);
  return ReduceSum(Multiply(wide, weights), axes);
}

bool IsDifferentiable(const Case& use, int output) {
  const std::vector<int>& only = use.differentiable_outputs;
  return only.empty() || std::count(only.begin(), only.end(), output) > 0;
}

}  // namespace

std::vector<Tensor> LossGraph::Targets(const PreparedCase& prepared) const {
  std::vector<Tensor> targets;
  for (size_t i = 0; i < declared.size() && loss.valid(); ++i) {
    if (IsFloating(declared[i].dtype()) && prepared.op->Differentiable(static_cast<int>(i))) {
      targets.push_back(declared[i]);
    }
  }
  return targets;
}

void RecordLoss(const Case& use, const PreparedCase& prepared, Front front, LossGraph& loss) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < prepared.inputs.size(); ++i) {
    inputs.push_back(DeclareInput(absl::StrCat("input", i), prepared.inputs[i], prepared.values[i],
                                  front, loss));
  }
  loss.outputs = loss.graph.Record(*prepared.op, inputs, prepared.attributes);
  for (size_t i = 0; i < loss.outputs.size(); ++i) {
    if (!IsFloating(loss.outputs[i].dtype()) || !IsDifferentiable(use, static_cast<int>(i))) {
      continue;
    }
    const Tensor term = Weighed(loss.outputs[i], absl::StrCat("weight", i), loss);
    loss.loss = loss.loss.valid() ? Add(loss.loss, term) : term;
  }
}

}  // namespace tessera::operator_tests
