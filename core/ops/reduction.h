// The base of operators that reduce over axes. Their attributes are `axes` (strictly increasing)
// and `keep_dims`.
#ifndef TESSERA_CORE_OPS_REDUCTION_H_
#define TESSERA_CORE_OPS_REDUCTION_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/graph/graph.h"
#include "core/graph/operator.h"
#include "core/layout/layout.h"
#include "core/ops/input_check.h"

namespace tessera {

absl::Status CheckReduction(const InputCheck& check, const Attributes& attributes,
                            const Shape& shape);

// Returns `shape` without the reduced axes; if `keep_dims`, with size 1 for each of them instead.
Shape ReducedShape(const Shape& shape, const Attributes& attributes, bool keep_dims);

// Returns for each dimension of the input the dimension of the output; -1 for a reduced one.
std::vector<int> OutputDims(int rank, const Attributes& attributes);

// Returns the attributes of a reduction of x. Negative axes count from the last one.
Attributes ReductionAttributes(Tensor x, absl::Span<const int64_t> axes, bool keep_dims);

// An operator x -> y that reduces over axes. Subclasses add its gradient.
class ReductionOperator : public Operator {
 public:
  // `partial` is the layout of y if x is split along a reduced axis: y still has to be reduced over
  // the ranks.
  ReductionOperator(absl::string_view name, AxisLayout partial) : name_(name), partial_(partial) {}

  absl::string_view name() const override { return name_; }
  absl::StatusOr<std::vector<TensorType>> InferTypes(absl::Span<const TensorType> inputs,
                                                     const Attributes& attributes) const override;
  OpCost Cost(const OpTypes& types) const override;
  std::vector<Signature> Signatures(const OpTypes& types) const override;

 private:
  const absl::string_view name_;
  const AxisLayout partial_;
};

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_REDUCTION_H_
