#include "core/graph/operator.h"

#include "absl/strings/str_cat.h"
#include "core/graph/graph.h"

namespace tessera {

absl::Status Operator::Gradient(GradientBuilder& builder) const {
  return absl::UnimplementedError(absl::StrCat("operator '", name(), "' has no gradient"));
}

std::vector<Signature> Operator::AllSignatures(const OpTypes& types) const {
  std::vector<Signature> all = Signatures(types);
  const std::vector<Signature> stated = StatedSignatures(types);
  all.insert(all.end(), stated.begin(), stated.end());
  return all;
}

std::vector<Tensor> Operator::RecordInParts(absl::Span<const Tensor> /*inputs*/,
                                            const Attributes& /*attributes*/) const {
  return {};
}

OpCost Operator::Cost(const OpTypes& types) const {
  OpCost cost;
  for (const TensorType& type : types.inputs) cost.bytes += static_cast<double>(NumBytes(type));
  for (const TensorType& type : types.outputs) cost.bytes += static_cast<double>(NumBytes(type));
  return cost;
}

}  // namespace tessera
