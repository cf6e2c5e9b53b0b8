// batch_norm and its gradient. Threads share positions of x, and vectors are along the channels.
#include "core/ops/batch_norm.h"

#include <algorithm>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/batch_norm.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/batch.h"
#include "core/kernels/cpu/batch_sums-inl.h"
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/status/status_macros.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Computes y of positions of one group, whose statistics are `mean` and `rstd`.
void Normalize(DType dtype, const void* elements, const float* mean, const float* rstd,
               const float* weight, const float* bias, int64_t positions, int64_t channels,
               void* results) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t p = 0; p < positions; ++p) {
      const T* const x = static_cast<const T*>(elements) + p * channels;
      T* const y = static_cast<T*>(results) + p * channels;
      ForEachVector(channels, [=](auto access, int64_t c) HWY_ATTR {
        const Floats distance = hn::Sub(access.Load(x + c), access.Load(mean + c));
        const Floats normal = hn::Mul(distance, access.Load(rstd + c));
        access.Store(hn::MulAdd(normal, access.Load(weight + c), access.Load(bias + c)), y + c);
      });
    }
  });
}

// Adds dy, and dy times the normalised x, to `sums` [2, channels].
void GradSumsOfPositions(DType dtype, const void* gradients, const void* elements,
                         const float* mean, const float* rstd, int64_t positions, int64_t channels,
                         double* sums) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    const T* const dy = static_cast<const T*>(gradients);
    const T* const x = static_cast<const T*>(elements);
    AddPositions<2>(
        positions, channels,
        [=](auto access, int64_t p, int64_t c, Floats* terms) HWY_ATTR {
          const int64_t at = p * channels + c;
          const Floats distance = hn::Sub(access.Load(x + at), access.Load(mean + c));
          terms[0] = access.Load(dy + at);
          terms[1] = hn::Mul(terms[0], hn::Mul(distance, access.Load(rstd + c)));
        },
        sums);
  });
}

// Computes dx of positions on which no statistic depends.
void ScaleGradient(DType dtype, const void* gradients, const float* rstd, const float* weight,
                   int64_t positions, int64_t channels, void* results) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t p = 0; p < positions; ++p) {
      const T* const dy = static_cast<const T*>(gradients) + p * channels;
      T* const dx = static_cast<T*>(results) + p * channels;
      ForEachVector(channels, [=](auto access, int64_t c) HWY_ATTR {
        const Floats scale = hn::Mul(access.Load(rstd + c), access.Load(weight + c));
        access.Store(hn::Mul(access.Load(dy + c), scale), dx + c);
      });
    }
  });
}

// Computes dx of a position on which the statistics of its group depend.
template <typename T>
void GradientOfPosition(const T* dy, const T* x, const GroupGradient& group, const float* weight,
                        int64_t channels, T* dx) {
  const float *const mean = group.mean, *const rstd = group.rstd;
  const float *const dy_sum = group.dy_sum, *const product_sum = group.product_sum;
  const Floats share = hn::Set(FloatTag(), group.share);
  ForEachVector(channels, [=](auto access, int64_t c) HWY_ATTR {
    const Floats gradient = access.Load(dy + c), scale = access.Load(rstd + c);
    const Floats normal = hn::Mul(hn::Sub(access.Load(x + c), access.Load(mean + c)), scale);
    const Floats change = hn::MulAdd(normal, access.Load(product_sum + c), access.Load(dy_sum + c));
    const Floats rest = hn::NegMulAdd(change, share, gradient);
    access.Store(hn::Mul(rest, hn::Mul(scale, access.Load(weight + c))), dx + c);
  });
}

void GradientOfPositions(DType dtype, const void* gradients, const void* elements,
                         const GroupGradient& group, const float* weight, int64_t positions,
                         int64_t channels, void* results) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    for (int64_t p = 0; p < positions; ++p) {
      GradientOfPosition(static_cast<const T*>(gradients) + p * channels,
                         static_cast<const T*>(elements) + p * channels, group, weight, channels,
                         static_cast<T*>(results) + p * channels);
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(Normalize);
HWY_EXPORT(GradSumsOfPositions);
HWY_EXPORT(ScaleGradient);
HWY_EXPORT(GradientOfPositions);

// Calls body(row, group, begin, end) for the positions of each row, on several threads.
template <typename Body>
absl::Status ForEachRow(const KernelCall& call, int x, int statistic, const Body& body) {
  const BatchShape shape(call.inputs[x].shape);
  const BatchGroups groups =
      BatchGroupsOf(call.request.attributes, call.input_regions, x, call.input_regions, statistic);
  RETURN_IF_ERROR(CheckGroups(groups, shape.rows, call.inputs[statistic]));
  if (shape.channels == 0) return absl::OkStatus();
  const int64_t grain = std::max<int64_t>(1, 8192 / shape.channels);
  ParallelFor(call.request.threads, shape.positions(), grain, [&](int64_t first, int64_t last) {
    ForEachRowOf(shape, first, last, [&](int64_t row, int64_t begin, int64_t end) {
      body(row, groups.Of(row), begin, end);
    });
  });
  return absl::OkStatus();
}

// Returns the statistics [channels] of a group.
const float* OfGroup(const TensorView& statistic, int64_t group) {
  return statistic.As<float>() + group * statistic.shape[1];
}

absl::Status BatchNorm(const KernelCall& call) {
  using Input = BatchNormInput;
  const TensorView &x = call.inputs[Input::kX], &y = call.outputs[0];
  const int64_t channels = x.shape.back();
  return ForEachRow(
      call, Input::kX, Input::kMean,
      [&](int64_t /*row*/, int64_t group, int64_t begin, int64_t end) {
        HWY_DYNAMIC_DISPATCH(Normalize)
        (x.dtype, ElementAt(x.dtype, x.data, begin * channels),
         OfGroup(call.inputs[Input::kMean], group), OfGroup(call.inputs[Input::kRstd], group),
         call.inputs[Input::kWeight].As<float>(), call.inputs[Input::kBias].As<float>(),
         end - begin, channels, ElementAt(y.dtype, y.data, begin * channels));
      });
}

absl::Status BatchNormGradSums(const KernelCall& call) {
  using Input = BatchNormGradSumsInput;
  const BatchShape shape(call.inputs[Input::kX].shape);
  const BatchGroups groups = BatchGroupsOf(call.request.attributes, call.input_regions, Input::kX,
                                           call.input_regions, Input::kMean);
  RETURN_IF_ERROR(CheckGroups(groups, shape.rows, call.inputs[Input::kMean]));
  SumGroups(call,
            {shape, groups, /*valid=*/nullptr, /*sums=*/2,
             [](const KernelCall& call, int64_t group, int64_t begin, int64_t end, double* sums) {
               const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX];
               const int64_t channels = x.shape.back();
               HWY_DYNAMIC_DISPATCH(GradSumsOfPositions)
               (x.dtype, ElementAt(dy.dtype, dy.data, begin * channels),
                ElementAt(x.dtype, x.data, begin * channels),
                OfGroup(call.inputs[Input::kMean], group),
                OfGroup(call.inputs[Input::kRstd], group), end - begin, channels, sums);
             }});
  return absl::OkStatus();
}

int64_t GradSumsWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return SumWorkspace(BatchShape(request.inputs[BatchNormGradSumsInput::kX].shape),
                      request.attributes.GetInt("group_rows"), request.outputs[0].shape[0],
                      /*sums=*/2);
}

absl::Status BatchNormGrad(const KernelCall& call) {
  using Input = BatchNormGradInput;
  const TensorView &dy = call.inputs[Input::kDy], &dx = call.outputs[0];
  const TensorView& rstd = call.inputs[Input::kRstd];
  const float* const weight = call.inputs[Input::kWeight].As<float>();
  const int64_t channels = dy.shape.back();
  const bool own_statistics = call.inputs.size() > Input::kX;
  const float* const valid = ValidRows(call, Input::kValid);
  return ForEachRow(
      call, Input::kDy, Input::kRstd, [&](int64_t row, int64_t group, int64_t begin, int64_t end) {
        const void* const gradient = ElementAt(dy.dtype, dy.data, begin * channels);
        void* const result = ElementAt(dx.dtype, dx.data, begin * channels);
        if (!own_statistics || !IsValid(valid, row)) {
          HWY_DYNAMIC_DISPATCH(ScaleGradient)
          (dy.dtype, gradient, OfGroup(rstd, group), weight, end - begin, channels, result);
          return;
        }
        const TensorView& x = call.inputs[Input::kX];
        const float count = call.inputs[Input::kCount].As<float>()[group];
        const GroupGradient statistics = {
            OfGroup(call.inputs[Input::kMean], group), OfGroup(rstd, group),
            OfGroup(call.inputs[Input::kDySum], group),
            OfGroup(call.inputs[Input::kProductSum], group), 1 / std::max(count, 1.0f)};
        HWY_DYNAMIC_DISPATCH(GradientOfPositions)
        (dy.dtype, gradient, ElementAt(x.dtype, x.data, begin * channels), statistics, weight,
         end - begin, channels, result);
      });
}

}  // namespace

void AddBatchNormKernels(KernelList& list) {
  list.Add("batch_norm", "highway", BatchNorm, kRowMajor);
  list.Add("batch_norm_grad_sums", "highway", BatchNormGradSums, WithWorkspace(GradSumsWorkspace));
  list.Add("batch_norm_grad", "highway", BatchNormGrad, kRowMajor);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
