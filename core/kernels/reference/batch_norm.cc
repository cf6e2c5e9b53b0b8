#include "core/ops/batch_norm.h"

#include <algorithm>

#include "core/kernels/reference/batch.h"
#include "core/kernels/reference/kernel_list.h"

namespace tessera::reference {
namespace {

absl::Status BatchNorm(const KernelCall& call) {
  using Input = BatchNormInput;
  const TensorView &x = call.inputs[Input::kX], &y = call.outputs[0];
  const TensorView &mean = call.inputs[Input::kMean], &rstd = call.inputs[Input::kRstd];
  const Line weight = LastLine(call.inputs[Input::kWeight], 0),
             bias = LastLine(call.inputs[Input::kBias], 0);
  const BatchGroups groups = BatchGroupsOf(call.request.attributes, call.input_regions, Input::kX,
                                           call.input_regions, Input::kMean);
  return ForEachPosition<2>(
      groups, mean, {&x, &y}, [&](int64_t /*row*/, int64_t group, const auto& lines) {
        for (int64_t c = 0; c < x.shape.back(); ++c) {
          const double n = (lines[0][c] - At(mean, group, c)) * At(rstd, group, c);
          lines[1][c] = n * weight[c] + bias[c];
        }
      });
}

absl::Status BatchNormGradSums(const KernelCall& call) {
  using Input = BatchNormGradSumsInput;
  const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX];
  const TensorView &mean = call.inputs[Input::kMean], &rstd = call.inputs[Input::kRstd];
  const TensorView &dy_sum = call.outputs[BatchNormGradSumsOutput::kDySum],
                   &product_sum = call.outputs[BatchNormGradSumsOutput::kProductSum];
  const BatchGroups groups = BatchGroupsOf(call.request.attributes, call.input_regions, Input::kX,
                                           call.input_regions, Input::kMean);
  SetZero(dy_sum);
  SetZero(product_sum);
  return ForEachPosition<2>(
      groups, mean, {&dy, &x}, [&](int64_t /*row*/, int64_t group, const auto& lines) {
        for (int64_t c = 0; c < x.shape.back(); ++c) {
          const double n = (lines[1][c] - At(mean, group, c)) * At(rstd, group, c);
          At(dy_sum, group, c) += lines[0][c];
          At(product_sum, group, c) += lines[0][c] * n;
        }
      });
}

// dx = weight * rstd * (dy - the change of the statistics by which x is normalised).
absl::Status BatchNormGrad(const KernelCall& call) {
  using Input = BatchNormGradInput;
  const TensorView &dy = call.inputs[Input::kDy], &dx = call.outputs[0];
  const TensorView& rstd = call.inputs[Input::kRstd];
  const Line weight = LastLine(call.inputs[Input::kWeight], 0);
  const BatchGroups groups = BatchGroupsOf(call.request.attributes, call.input_regions, Input::kDy,
                                           call.input_regions, Input::kRstd);
  const int64_t channels = dy.shape.back();
  if (call.inputs.size() <= Input::kX) {
    return ForEachPosition<2>(groups, rstd, {&dy, &dx},
                              [&](int64_t /*row*/, int64_t group, const auto& lines) {
                                for (int64_t c = 0; c < channels; ++c) {
                                  lines[1][c] = weight[c] * At(rstd, group, c) * lines[0][c];
                                }
                              });
  }
  const TensorView &x = call.inputs[Input::kX], &mean = call.inputs[Input::kMean];
  const TensorView &dy_sum = call.inputs[Input::kDySum],
                   &product_sum = call.inputs[Input::kProductSum],
                   &count = call.inputs[Input::kCount];
  return ForEachPosition<3>(
      groups, rstd, {&dy, &dx, &x}, [&](int64_t row, int64_t group, const auto& lines) {
        // The statistics do not depend on other rows.
        const double share =
            IsValid(call, Input::kValid, row) ? 1 / std::max(At(count, group, 0), 1.0) : 0;
        for (int64_t c = 0; c < channels; ++c) {
          const double n = (lines[2][c] - At(mean, group, c)) * At(rstd, group, c);
          const double change = share * (At(dy_sum, group, c) + n * At(product_sum, group, c));
          lines[1][c] = weight[c] * At(rstd, group, c) * (lines[0][c] - change);
        }
      });
}

}  // namespace

void AddBatchNormKernels(KernelList& list) {
  AddLoops(list, "batch_norm", BatchNorm);
  AddLoops(list, "batch_norm_grad_sums", BatchNormGradSums);
  AddLoops(list, "batch_norm_grad", BatchNormGrad);
}

}  // namespace tessera::reference
