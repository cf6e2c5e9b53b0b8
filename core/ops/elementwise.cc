#include "core/ops/elementwise.h"

#include "core/ops/ops.h"

namespace tessera {

OpCost WithFlops(OpCost cost, double flops) {
  cost.flops = flops;
  return cost;
}

double Elements(const TensorType& type) { return static_cast<double>(NumElements(type.shape)); }

OpCost ElementwiseOperator::Cost(const OpTypes& types) const {
  return WithFlops(Operator::Cost(types), flops_per_element_ * Elements(types.outputs[0]));
}

std::vector<Signature> ElementwiseOperator::Signatures(const OpTypes& types) const {
  std::vector<Signature> signatures = SplitEveryDim(types);
  signatures.insert(signatures.end(), partial_.linear.begin(), partial_.linear.end());
  return signatures;
}

std::vector<Signature> ElementwiseOperator::StatedSignatures(const OpTypes& types) const {
  std::vector<Signature> signatures = partial_.stated;
  if (IsFloating(types.outputs[0].dtype)) {
    signatures.insert(signatures.end(), partial_.stated_of_floats.begin(),
                      partial_.stated_of_floats.end());
  }
  return signatures;
}

std::vector<Signature> OfIncreasing() {
  return {{{sbp::PMax()}, {sbp::PMax()}}, {{sbp::PMin()}, {sbp::PMin()}}};
}

std::vector<Signature> OfDecreasing() {
  return {{{sbp::PMax()}, {sbp::PMin()}}, {{sbp::PMin()}, {sbp::PMax()}}};
}

std::vector<Signature> WithPartial(std::vector<Signature> signatures, const OpTypes& types) {
  std::vector<AxisLayout> kinds = {sbp::P(), sbp::PMax(), sbp::PMin()};
  if (IsFloating(types.inputs[0].dtype)) kinds.push_back(sbp::PLse());
  for (const AxisLayout& partial : kinds) {
    signatures.push_back({std::vector<AxisLayout>(types.inputs.size(), partial),
                          std::vector<AxisLayout>(types.outputs.size(), partial)});
  }
  return signatures;
}

std::vector<Signature> SplitEveryDim(const OpTypes& types) {
  const Shape& shape = types.outputs[0].shape;
  const int rank = static_cast<int>(shape.size());
  std::vector<Signature> signatures;
  for (int d = 0; d < rank; ++d) {
    Signature signature;
    for (const TensorType& input : types.inputs) {
      const int i = d - (rank - static_cast<int>(input.shape.size()));
      const bool broadcast = i < 0 || (input.shape[i] == 1 && shape[d] != 1);
      signature.inputs.push_back(broadcast ? sbp::B() : sbp::S(i));
    }
    signature.outputs.assign(types.outputs.size(), sbp::S(d));
    signatures.push_back(std::move(signature));
  }
  return signatures;
}

Tensor InDType(Tensor x, DType dtype) { return x.dtype() == dtype ? x : Cast(x, dtype); }

Tensor SumToShape(Tensor gradient, Shape shape) {
  if (!gradient.valid() || gradient.shape() == shape) return gradient;
  const int extra = gradient.rank() - static_cast<int>(shape.size());
  std::vector<int64_t> axes;
  for (int d = 0; d < gradient.rank(); ++d) {
    if (gradient.dim(d) != 1 && (d < extra || shape[d - extra] == 1)) axes.push_back(d);
  }
  Tensor sum = ReduceSum(gradient, axes);
  return sum.shape() == shape ? sum : Reshape(sum, shape);
}

}  // namespace tessera
