// The base of elementwise operators, and their costs and signatures.
#ifndef TESSERA_CORE_OPS_ELEMENTWISE_H_
#define TESSERA_CORE_OPS_ELEMENTWISE_H_

#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/operator.h"
#include "core/ops/signatures.h"

namespace tessera {

// Outputs of one shape, each element of which is computed from the inputs' elements at its place.
class ElementwiseOperator : public Operator {
 public:
  // `linear`: the signatures with partial layouts, which say in which inputs it is linear.
  ElementwiseOperator(absl::string_view name, double flops_per_element,
                      std::vector<Signature> linear = {})
      : name_(name), flops_per_element_(flops_per_element), linear_(std::move(linear)) {}

  absl::string_view name() const override { return name_; }
  OpCost Cost(const OpTypes& types) const override;
  std::vector<Signature> Signatures(const OpTypes& types) const override;

 private:
  absl::string_view name_;
  double flops_per_element_;
  std::vector<Signature> linear_;
};

// `cost` with that many FLOPs.
OpCost WithFlops(OpCost cost, double flops);
// As a double, for costs.
double Elements(const TensorType& type);

// The gradient of broadcasting: sums `gradient` over the dimensions that `shape` lacks or has with
// size 1, and gives the sum that shape. By value: recording moves what a handle's shape() refers
// to.
Tensor SumToShape(Tensor gradient, Shape shape);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_ELEMENTWISE_H_
