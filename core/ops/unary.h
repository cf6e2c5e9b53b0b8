// The base of elementwise operators with one floating input and no attributes.
#ifndef TESSERA_CORE_OPS_UNARY_H_
#define TESSERA_CORE_OPS_UNARY_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/ops/elementwise.h"

namespace tessera {

class UnaryOperator : public ElementwiseOperator {
 public:
  // Returns dx, given dy, x and y.
  using GradientRule = Tensor (*)(Tensor dy, Tensor x, Tensor y);

  UnaryOperator(absl::string_view name, double flops_per_element, GradientRule gradient,
                PartialSignatures partial = {})
      : ElementwiseOperator(name, flops_per_element, std::move(partial)), gradient_(gradient) {}

  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override;
  absl::Status Gradient(GradientBuilder& builder) const override;
  std::vector<std::pair<int, int>> InPlace(const OpTypes& types) const override { return {{0, 0}}; }

 private:
  GradientRule gradient_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_UNARY_H_
