// The base of elementwise operators, and their costs and signatures.
#ifndef TESSERA_CORE_OPS_ELEMENTWISE_H_
#define TESSERA_CORE_OPS_ELEMENTWISE_H_

#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/operator.h"
#include "core/ops/signatures.h"

namespace tessera {

// The signatures of an elementwise operator that have partial layouts.
struct PartialSignatures {
  std::vector<Signature> linear = {};  // for inputs in which the operator is linear
  // Those that only a Plan chooses, and those of floating outputs alone: sums of integers may
  // overflow, and integers have no log-sum-exps.
  std::vector<Signature> stated = {};
  std::vector<Signature> stated_of_floats = {};
};

// An operator whose outputs have one shape, and compute each element from the inputs' elements at
// the same position.
class ElementwiseOperator : public Operator {
 public:
  ElementwiseOperator(absl::string_view name, double flops_per_element,
                      PartialSignatures partial = {})
      : name_(name), flops_per_element_(flops_per_element), partial_(std::move(partial)) {}

  absl::string_view name() const override { return name_; }
  OpCost Cost(const OpTypes& types) const override;
  std::vector<Signature> Signatures(const OpTypes& types) const override;
  std::vector<Signature> StatedSignatures(const OpTypes& types) const override;

 private:
  absl::string_view name_;
  double flops_per_element_;
  PartialSignatures partial_;
};

// Returns `cost` with `flops` FLOPs.
OpCost WithFlops(OpCost cost, double flops);
// Returns the number of elements as a double, for costs.
double Elements(const TensorType& type);

// Returns `x`, cast if it has another dtype.
Tensor InDType(Tensor x, DType dtype);

// The gradient of broadcasting. Sums `gradient` over the dimensions that `shape` lacks or has with
// size 1, and reshapes the sum to `shape`. `shape` is passed by value because recording invalidates
// references to a handle's shape().
Tensor SumToShape(Tensor gradient, Shape shape);

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_ELEMENTWISE_H_
