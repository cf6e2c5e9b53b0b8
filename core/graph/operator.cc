#include "core/graph/operator.h"

#include "absl/strings/str_cat.h"

namespace tessera {

absl::Status Operator::Gradient(GradientBuilder& builder) const {
  return absl::UnimplementedError(absl::StrCat("operator '", name(), "' has no gradient"));
}

OpCost Operator::Cost(const OpTypes& types) const {
  OpCost cost;
  for (const TensorType& type : types.inputs) cost.bytes += static_cast<double>(NumBytes(type));
  for (const TensorType& type : types.outputs) cost.bytes += static_cast<double>(NumBytes(type));
  return cost;
}

}  // namespace tessera
