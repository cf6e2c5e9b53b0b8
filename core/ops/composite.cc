// Functions that record several operators.
#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/ops/batch_norm.h"
#include "core/ops/operators.h"
#include "core/ops/ops.h"
#include "core/ops/recording.h"

namespace tessera {
namespace {

// Returns a scalar of x's dtype, which broadcasts to x.
Tensor ConstantLike(Tensor x, double value) { return Fill(*x.graph(), {x.dtype(), {}}, value); }

std::vector<int64_t> AllAxes(Tensor x) {
  std::vector<int64_t> axes(x.rank());
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Tensor AtLeastOne(Tensor x) { return Maximum(x, ConstantLike(x, 1)); }

// Returns the rows of each group; 0, with an error in the Graph, if a group would have none.
int64_t GroupRows(Tensor x, int64_t groups) {
  const int64_t rows = x.rank() == 0 ? 0 : x.dim(0);
  const int64_t group_rows = groups < 1 ? 0 : (std::max<int64_t>(rows, 1) - 1) / groups + 1;
  const int64_t made = group_rows == 0 ? 0 : (std::max<int64_t>(rows, 1) - 1) / group_rows + 1;
  if (made == groups && groups > 0) return group_rows;
  std::string remedy = "1 or more";
  if (made > 0) remedy = absl::StrCat(made, ", as ", rows, " rows are groups of ", group_rows);
  x.graph()->Fail(absl::InvalidArgumentError(
      absl::StrCat("batch_norm: attribute groups=", groups, " must be ", remedy)));
  return 0;
}

// Returns how many groups have valid rows, or 1 if none has. It is computed from `valid` [rows]
// alone, so that micro-batches need no statistics of the full batch.
Tensor GroupsWithValidRows(Tensor valid, const Attributes& sum_attributes) {
  const Tensor rows = Reshape(valid, {valid.dim(0), 1});
  const std::vector<Tensor> sums =
      RecordOperator(BatchNormSumOperator(), {rows, valid}, sum_attributes, 2);
  const Tensor count = sums[BatchNormSumOutput::kCount];
  const Tensor has_rows = Minimum(count, ConstantLike(count, 1));
  return AtLeastOne(ReduceSum(has_rows, {0}));
}

// Returns the average of `statistic` [groups, channels] over the groups that have valid rows; it is
// 0 for others. All of them have if `groups_with_rows` is invalid.
Tensor AverageOfGroups(Tensor statistic, Tensor groups_with_rows) {
  const int64_t channels = statistic.dim(1);
  if (statistic.dim(0) == 1) return Reshape(statistic, {channels});
  if (!groups_with_rows.valid()) return ReduceMean(statistic, {0});
  return Divide(ReduceSum(statistic, {0}), groups_with_rows);
}

// Returns the mean cross-entropy over the valid targets.
MeanLoss MeanCrossEntropy(const RowLogits& rows, Tensor targets) {
  if (!rows.lse.valid()) return {};
  // Values of rows are at least f32, whatever the dtype of logits, as are the sums over a batch.
  Tensor mask = ValidMask(targets);
  const Tensor valid = mask;
  if (mask.dtype() != rows.lse.dtype()) mask = Cast(mask, rows.lse.dtype());
  const std::vector<int64_t> axes = AllAxes(mask);
  const Tensor each = Subtract(rows.lse, rows.target_logit);
  const Tensor total = ReduceSum(Multiply(each, mask), axes);
  const Tensor count = ReduceSum(mask, axes);
  return {Divide(total, AtLeastOne(count)), valid, each};
}

// Sets the updated value of a running statistic, given its input value. A statistic that the step
// has updated already is updated again.
void UpdateRunning(Tensor running, Tensor batch, double momentum) {
  if (!running.valid() || !batch.valid()) return;
  Graph& graph = *running.graph();
  const std::string path = graph.value(running.id()).path;
  const State* const state = graph.FindState(path);
  if (state == nullptr) {
    graph.Fail(absl::InvalidArgumentError(
        absl::StrCat("batch_norm: '", path, "' is no state that could keep a running statistic")));
    return;
  }
  const Tensor kept = Scale(graph.tensor(state->updated), 1 - momentum);
  const Tensor added = Scale(batch, momentum);
  graph.SetState(path, Add(kept, added));
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

NormalizedBatch BatchNorm(Tensor x, Tensor weight, Tensor bias, Tensor valid,
                          const BatchNormOptions& options) {
  if (!x.valid()) return {};
  const int64_t group_rows = GroupRows(x, options.groups);
  if (group_rows == 0) return {};
  const bool has_valid = valid.valid();
  if (has_valid && valid.dtype() != StatisticDType(x.dtype())) {
    valid = Cast(valid, StatisticDType(x.dtype()));
  }
  const auto with_valid = [&](std::vector<Tensor> inputs) {
    if (has_valid) inputs.push_back(valid);
    return inputs;
  };
  const Attributes attributes = {{"group_rows", group_rows}};
  const Attributes sum_attributes = {{"group_rows", group_rows}, {"groups", options.groups}};
  const std::vector<Tensor> sums =
      RecordOperator(BatchNormSumOperator(), with_valid({x}), sum_attributes, 2);
  const Tensor count = sums[BatchNormSumOutput::kCount];
  if (!count.valid()) return {};
  const Tensor divisor = AtLeastOne(count);
  const Tensor mean = Divide(sums[BatchNormSumOutput::kSum], divisor);
  const Tensor squares =
      RecordSingleOutput(BatchNormSquaresOperator(), with_valid({x, mean}), attributes);
  const Tensor rstd = Rsqrt(AddConstant(Divide(squares, divisor), options.eps));
  const Tensor y = RecordSingleOutput(BatchNormOperator(),
                                      with_valid({x, mean, rstd, weight, bias, count}), attributes);
  if (!y.valid()) return {};
  const Tensor unbiased = Divide(squares, AtLeastOne(AddConstant(count, -1)));
  Tensor groups_with_rows;
  if (has_valid && options.groups > 1) {
    groups_with_rows = GroupsWithValidRows(valid, sum_attributes);
  }
  const Tensor average = AverageOfGroups(mean, groups_with_rows);
  return {y, average, AverageOfGroups(unbiased, groups_with_rows)};
}

Tensor BatchNormWith(Tensor x, Tensor weight, Tensor bias, Tensor mean, Tensor variance,
                     double eps) {
  if (!x.valid() || !mean.valid() || !variance.valid()) return {};
  const int64_t group_rows = GroupRows(x, 1);
  const Tensor rstd = Rsqrt(AddConstant(variance, eps));
  const Tensor means = Reshape(mean, {1, NumElements(mean.shape())});
  const Tensor rstds = Reshape(rstd, {1, NumElements(rstd.shape())});
  return RecordSingleOutput(BatchNormOperator(), {x, means, rstds, weight, bias},
                            {{"group_rows", group_rows}});
}

RunningMoments DeclareRunningMoments(Graph& graph, int64_t channels) {
  RunningMoments running;
  running.mean = graph.RunningStatistic("running_mean", {channels}, Initializer::Constant(0));
  running.variance =
      graph.RunningStatistic("running_variance", {channels}, Initializer::Constant(1));
  return running;
}

Tensor BatchNormUpdating(Tensor x, Tensor weight, Tensor bias, const RunningMoments& running,
                         Tensor valid, const RunningBatchNormOptions& options) {
  const NormalizedBatch batch = BatchNorm(x, weight, bias, valid, options.batch);
  UpdateRunning(running.mean, batch.mean, options.momentum);
  UpdateRunning(running.variance, batch.variance, options.momentum);
  return batch.y;
}

MeanLoss LinearCrossEntropy(Tensor x, Tensor weight, Tensor targets) {
  return MeanCrossEntropy(LinearLogSumExp(x, weight, targets), targets);
}

MeanLoss CrossEntropy(Tensor logits, Tensor targets, const CrossEntropyOptions& options) {
  return MeanCrossEntropy(LogSumExp(logits, targets, options.label_smoothing), targets);
}

}  // namespace tessera
