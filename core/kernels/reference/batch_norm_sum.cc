#include "core/kernels/reference/batch.h"
#include "core/kernels/reference/kernel_list.h"

namespace tessera::reference {
namespace {

absl::Status BatchNormSum(const KernelCall& call) {
  using Input = BatchNormSumInput;
  const TensorView& x = call.inputs[Input::kX];
  const TensorView &sum = call.outputs[BatchNormSumOutput::kSum],
                   &count = call.outputs[BatchNormSumOutput::kCount];
  const BatchGroups groups = BatchGroupsOf(call.request.attributes, call.input_regions, Input::kX,
                                           call.output_regions, BatchNormSumOutput::kSum);
  SetZero(sum);
  SetZero(count);
  return ForEachPosition<1>(groups, sum, {&x}, [&](int64_t row, int64_t group, const auto& lines) {
    if (!IsValid(call, Input::kValid, row)) return;
    At(count, group, 0) += 1;
    for (int64_t c = 0; c < x.shape.back(); ++c) At(sum, group, c) += lines[0][c];
  });
}

absl::Status BatchNormSquares(const KernelCall& call) {
  using Input = BatchNormSquaresInput;
  const TensorView &x = call.inputs[Input::kX], &mean = call.inputs[Input::kMean];
  const TensorView& squares = call.outputs[0];
  const BatchGroups groups = BatchGroupsOf(call.request.attributes, call.input_regions, Input::kX,
                                           call.input_regions, Input::kMean);
  SetZero(squares);
  return ForEachPosition<1>(groups, mean, {&x}, [&](int64_t row, int64_t group, const auto& lines) {
    if (!IsValid(call, Input::kValid, row)) return;
    for (int64_t c = 0; c < x.shape.back(); ++c) {
      const double distance = lines[0][c] - At(mean, group, c);
      At(squares, group, c) += distance * distance;
    }
  });
}

}  // namespace

void AddBatchNormSumKernels(KernelList& list) {
  AddLoops(list, "batch_norm_sum", BatchNormSum);
  AddLoops(list, "batch_norm_squares", BatchNormSquares);
}

}  // namespace tessera::reference
