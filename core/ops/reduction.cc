#include "core/ops/reduction.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/ops/elementwise.h"
#include "core/ops/recording.h"
#include "core/ops/signatures.h"
#include "core/status/status_macros.h"

namespace tessera {

absl::Status CheckReduction(const InputCheck& check, const Attributes& attributes,
                            const Shape& shape) {
  RETURN_IF_ERROR(check.Has<std::vector<int64_t>>("axes"));
  RETURN_IF_ERROR(check.Has<bool>("keep_dims"));
  const std::vector<int64_t>& axes = attributes.GetInts("axes");
  int64_t next = 0;
  bool are_ascending = !axes.empty();
  for (int64_t axis : axes) {
    are_ascending = are_ascending && axis >= next && axis < static_cast<int64_t>(shape.size());
    next = axis + 1;
  }
  if (are_ascending) return absl::OkStatus();
  return check.Misfit("axes", absl::StrCat("one or more dimensions of ", ShapeToString(shape),
                                           ", each once, in rising order"));
}

Shape ReducedShape(const Shape& shape, const Attributes& attributes, bool keep_dims) {
  const std::vector<int64_t>& axes = attributes.GetInts("axes");
  Shape reduced;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (!absl::c_linear_search(axes, static_cast<int64_t>(d))) {
      reduced.push_back(shape[d]);
    } else if (keep_dims) {
      reduced.push_back(1);
    }
  }
  return reduced;
}

std::vector<int> OutputDims(int rank, const Attributes& attributes) {
  const std::vector<int64_t>& axes = attributes.GetInts("axes");
  const bool keep_dims = attributes.GetBool("keep_dims");
  std::vector<int> dims;
  int next = 0;
  for (int d = 0; d < rank; ++d) {
    const bool reduced = absl::c_linear_search(axes, d);
    dims.push_back(reduced ? -1 : next);
    if (!reduced || keep_dims) ++next;
  }
  return dims;
}

Attributes ReductionAttributes(Tensor x, absl::Span<const int64_t> axes, bool keep_dims) {
  std::vector<int64_t> sorted;
  for (int64_t axis : axes) sorted.push_back(NonNegativeAxis(axis, x.rank()));
  absl::c_sort(sorted);
  return {{"axes", std::move(sorted)}, {"keep_dims", keep_dims}};
}

absl::StatusOr<std::vector<TensorType>> ReductionOperator::InferTypes(
    absl::Span<const TensorType> inputs, const Attributes& attributes) const {
  const InputCheck check({"x"}, inputs, attributes);
  RETURN_IF_ERROR(check.Count());
  RETURN_IF_ERROR(check.Floating(0));
  RETURN_IF_ERROR(CheckReduction(check, attributes, inputs[0].shape));
  return std::vector<TensorType>{{inputs[0].dtype, ReducedShape(inputs[0].shape, attributes,
                                                                attributes.GetBool("keep_dims"))}};
}

OpCost ReductionOperator::Cost(const OpTypes& types) const {
  return WithFlops(Operator::Cost(types), Elements(types.inputs[0]));
}

std::vector<Signature> ReductionOperator::Signatures(const OpTypes& types) const {
  const std::vector<int> output_dims =
      OutputDims(static_cast<int>(types.inputs[0].shape.size()), types.attributes);
  std::vector<Signature> signatures;
  signatures.reserve(output_dims.size() + 1);
  for (int d = 0; d < static_cast<int>(output_dims.size()); ++d) {
    signatures.push_back({{sbp::S(d)}, {output_dims[d] < 0 ? partial_ : sbp::S(output_dims[d])}});
  }
  signatures.push_back({{partial_}, {partial_}});
  return signatures;
}

}  // namespace tessera
