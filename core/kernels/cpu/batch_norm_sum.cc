// batch_norm_sum and batch_norm_squares: sums over the valid rows of each group (batch.h).
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/batch_norm_sum.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/batch.h"
#include "core/kernels/cpu/batch_sums-inl.h"
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/status/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

void SumOfPositions(DType dtype, const void* elements, int64_t positions, int64_t channels,
                    double* sums) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    const T* const x = static_cast<const T*>(elements);
    AddPositions<1>(
        positions, channels,
        [=](auto access, int64_t p, int64_t c, Floats* terms)
            HWY_ATTR { terms[0] = access.Load(x + p * channels + c); },
        sums);
  });
}

void SquaresOfPositions(DType dtype, const void* elements, const float* mean, int64_t positions,
                        int64_t channels, double* sums) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    const T* const x = static_cast<const T*>(elements);
    AddPositions<1>(
        positions, channels,
        [=](auto access, int64_t p, int64_t c, Floats* terms) HWY_ATTR {
          const Floats distance = hn::Sub(access.Load(x + p * channels + c), access.Load(mean + c));
          terms[0] = hn::Mul(distance, distance);
        },
        sums);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SumOfPositions);
HWY_EXPORT(SquaresOfPositions);

// Sets the number of valid positions of each group.
void CountValid(const BatchShape& shape, const BatchGroups& groups, const float* valid,
                const TensorView& count) {
  for (int64_t group = 0; group < count.shape[0]; ++group) {
    int64_t rows = 0;
    for (int64_t row = groups.Begin(group, shape.rows); row < groups.End(group, shape.rows);
         ++row) {
      rows += IsValid(valid, row) ? 1 : 0;
    }
    count.As<float>()[group] = static_cast<float>(rows * shape.row_positions);
  }
}

absl::Status BatchNormSum(const KernelCall& call) {
  using Input = BatchNormSumInput;
  using Output = BatchNormSumOutput;
  const TensorView& x = call.inputs[Input::kX];
  const BatchShape shape(x.shape);
  const BatchGroups groups = BatchGroupsOf(call.request.attributes, call.input_regions, Input::kX,
                                           call.output_regions, Output::kSum);
  RETURN_IF_ERROR(CheckGroups(groups, shape.rows, call.outputs[Output::kSum]));
  const float* const valid = ValidRows(call, Input::kValid);
  CountValid(shape, groups, valid, call.outputs[Output::kCount]);
  SumGroups(
      call,
      {shape, groups, valid, /*sums=*/1,
       [](const KernelCall& call, int64_t /*group*/, int64_t begin, int64_t end, double* sums) {
         const TensorView& x = call.inputs[Input::kX];
         const int64_t channels = x.shape.back();
         HWY_DYNAMIC_DISPATCH(SumOfPositions)
         (x.dtype, ElementAt(x.dtype, x.data, begin * channels), end - begin, channels, sums);
       }});
  return absl::OkStatus();
}

absl::Status BatchNormSquares(const KernelCall& call) {
  using Input = BatchNormSquaresInput;
  const BatchShape shape(call.inputs[Input::kX].shape);
  const BatchGroups groups = BatchGroupsOf(call.request.attributes, call.input_regions, Input::kX,
                                           call.input_regions, Input::kMean);
  RETURN_IF_ERROR(CheckGroups(groups, shape.rows, call.inputs[Input::kMean]));
  SumGroups(call,
            {shape, groups, ValidRows(call, Input::kValid), /*sums=*/1,
             [](const KernelCall& call, int64_t group, int64_t begin, int64_t end, double* sums) {
               const TensorView& x = call.inputs[Input::kX];
               const int64_t channels = x.shape.back();
               HWY_DYNAMIC_DISPATCH(SquaresOfPositions)
               (x.dtype, ElementAt(x.dtype, x.data, begin * channels),
                call.inputs[Input::kMean].As<float>() + group * channels, end - begin, channels,
                sums);
             }});
  return absl::OkStatus();
}

int64_t Workspace(const KernelRequest& request, const Processor& /*processor*/) {
  return SumWorkspace(BatchShape(request.inputs[0].shape), request.attributes.GetInt("group_rows"),
                      request.outputs[0].shape[0], /*sums=*/1);
}

}  // namespace

void AddBatchNormSumKernels(KernelList& list) {
  list.Add("batch_norm_sum", "highway", BatchNormSum, WithWorkspace(Workspace));
  list.Add("batch_norm_squares", "highway", BatchNormSquares, WithWorkspace(Workspace));
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
