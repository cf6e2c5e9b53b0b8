// Functions that record several operators.
#include <numeric>

#include "core/ops/ops.h"

namespace tessera {
namespace {

// Returns a scalar of x's dtype, which broadcasts to x.
Tensor ConstantLike(Tensor x, double value) { return Fill(*x.graph(), {x.dtype(), {}}, value); }

std::vector<int64_t> AllAxes(Tensor x) {
  std::vector<int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

}  // namespace

Tensor Scale(Tensor x, double factor) {
  return x.valid() ? Multiply(x, ConstantLike(x, factor)) : x;
}

Tensor AddConstant(Tensor x, double term) { return x.valid() ? Add(x, ConstantLike(x, term)) : x; }

Tensor Slice(Tensor x, int axis, int64_t start, int64_t size) {
  const int64_t size_of_x = x.dim(axis);
  std::vector<int64_t> sizes;
  if (start != 0) sizes.push_back(start);
  sizes.push_back(size);
  if (start + size != size_of_x) sizes.push_back(size_of_x - start - size);
  return Split(x, axis, sizes)[start != 0 ? 1 : 0];
}

Tensor Linear(Tensor x, Tensor weight, Tensor bias) {
  const Tensor y = MatMul(x, weight, /*transpose_a=*/false, /*transpose_b=*/true);
  return bias.valid() ? Add(y, bias) : y;
}

Tensor Conv2d(Tensor x, Tensor weight, Tensor bias, const ConvolutionOptions& options) {
  const Tensor y = Convolution(x, weight, options);
  return bias.valid() ? Add(y, bias) : y;
}

Tensor ReduceMean(Tensor x, absl::Span<const int64_t> axes, bool keep_dims) {
  int64_t count = 1;
  for (int64_t axis : axes) count *= x.dim(static_cast<int>(axis));
  const Tensor sum = ReduceSum(x, axes, keep_dims);
  return sum.valid() ? Divide(sum, ConstantLike(sum, static_cast<double>(count))) : sum;
}

MeanLoss LinearCrossEntropy(Tensor x, Tensor weight, Tensor targets) {
  const RowLogits rows = LinearLogSumExp(x, weight, targets);
  if (!rows.lse.valid()) return {};
  // Values of rows are at least f32, whatever the dtype of x, as are the sums over a batch.
  Tensor mask = ValidMask(targets);
  const Tensor valid = mask;
  if (mask.dtype() != rows.lse.dtype()) mask = Cast(mask, rows.lse.dtype());
  const std::vector<int64_t> axes = AllAxes(mask);
  const Tensor total = ReduceSum(Multiply(Subtract(rows.lse, rows.target_logit), mask), axes);
  const Tensor count = ReduceSum(mask, axes);
  return {Divide(total, Maximum(count, ConstantLike(count, 1))), valid};
}

}  // namespace tessera
