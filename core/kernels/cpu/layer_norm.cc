// layer_norm and its gradient, over the last dimension. Mean and variance take two passes over a
// row, which stays in the L1 cache.
//
// The gradients of weight and bias are sums over rows, in fp32 within a group of rows and in double
// over groups. Threads share blocks of groups, whose size depends on the number of rows alone.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/layer_norm.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "core/ops/layer_norm.h"
#include "core/tensor/convert.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Computes y, the mean and 1 / sqrt(variance + eps) of a row of `count` elements.
template <typename T>
void NormalizeRow(const T* x, const T* weight, const T* bias, double eps, int64_t count, T* y,
                  float* mean_of_row, float* rstd_of_row) {
  const FloatTag d;
  double sum[1], squares[1];
  SumVectors<1>(
      count, [=](auto access, int64_t i, Floats* terms) HWY_ATTR { terms[0] = access.Load(x + i); },
      sum);
  *mean_of_row = static_cast<float>(sum[0] / static_cast<double>(count));
  const Floats mean = hn::Set(d, *mean_of_row);
  SumVectors<1>(
      count,
      [=](auto access, int64_t i, Floats* terms) HWY_ATTR {
        const Floats distance = hn::Sub(access.Load(x + i), mean);
        terms[0] = hn::Mul(distance, distance);
      },
      squares);
  const double variance = squares[0] / static_cast<double>(count);
  *rstd_of_row = static_cast<float>(1 / std::sqrt(variance + eps));
  const Floats rstd = hn::Set(d, *rstd_of_row);
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats normal = hn::Mul(hn::Sub(access.Load(x + i), mean), rstd);
    access.Store(hn::MulAdd(normal, access.Load(weight + i), access.Load(bias + i)), y + i);
  });
}

// Computes dx of a row, and adds what the row contributes to the gradients of weight and bias to
// `dweight` and `dbias`.
template <typename T>
void GradientOfRow(const T* dy, const T* x, const T* weight, float mean_of_row, float rstd_of_row,
                   int64_t count, T* dx, float* dweight, float* dbias) {
  const FloatTag d;
  const Floats mean = hn::Set(d, mean_of_row), rstd = hn::Set(d, rstd_of_row);
  double sums[2];
  SumVectors<2>(
      count,
      [=](auto access, int64_t i, Floats* terms) HWY_ATTR {
        const Floats change = access.Load(dy + i);
        const Floats normal = hn::Mul(hn::Sub(access.Load(x + i), mean), rstd);
        access.Store(hn::MulAdd(change, normal, access.Load(dweight + i)), dweight + i);
        access.Store(hn::Add(change, access.Load(dbias + i)), dbias + i);
        terms[0] = hn::Mul(change, access.Load(weight + i));
        terms[1] = hn::Mul(terms[0], normal);
      },
      sums);
  const Floats mean_change = hn::Set(d, static_cast<float>(sums[0] / static_cast<double>(count)));
  const Floats mean_normal_change =
      hn::Set(d, static_cast<float>(sums[1] / static_cast<double>(count)));
  ForEachVector(count, [=](auto access, int64_t i) HWY_ATTR {
    const Floats change = hn::Mul(access.Load(dy + i), access.Load(weight + i));
    const Floats normal = hn::Mul(hn::Sub(access.Load(x + i), mean), rstd);
    const Floats rest = hn::NegMulAdd(normal, mean_normal_change, hn::Sub(change, mean_change));
    access.Store(hn::Mul(rest, rstd), dx + i);
  });
}

void LayerNormRow(DType dtype, const void* x, const void* weight, const void* bias, double eps,
                  int64_t count, void* y, float* mean, float* rstd) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    NormalizeRow(static_cast<const T*>(x), static_cast<const T*>(weight),
                 static_cast<const T*>(bias), eps, count, static_cast<T*>(y), mean, rstd);
  });
}

void LayerNormGradRow(DType dtype, const void* dy, const void* x, const void* weight, float mean,
                      float rstd, int64_t count, void* dx, float* dweight, float* dbias) {
  WithFloatType(dtype, [&](auto type) {
    using T = decltype(type);
    GradientOfRow(static_cast<const T*>(dy), static_cast<const T*>(x),
                  static_cast<const T*>(weight), mean, rstd, count, static_cast<T*>(dx), dweight,
                  dbias);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(LayerNormRow);
HWY_EXPORT(LayerNormGradRow);

// The blocks of rows that threads share for the gradients of weight and bias.
struct RowBlocks {
  static constexpr int64_t kGroup = 64;  // rows that are summed in f32
  static constexpr int64_t kMaxBlocks = 64;
  int64_t rows, columns, block_rows, blocks;

  RowBlocks(int64_t rows, int64_t columns) : rows(rows), columns(columns) {
    const int64_t groups = (rows + kGroup - 1) / kGroup;
    block_rows = std::max<int64_t>(1, (groups + kMaxBlocks - 1) / kMaxBlocks) * kGroup;
    blocks = (rows + block_rows - 1) / block_rows;
  }
  // Returns the bytes of a block's sums followed by those of one group, each for weight and bias.
  int64_t block_bytes() const {
    return 2 * columns * static_cast<int64_t>(sizeof(double) + sizeof(float));
  }
};

// Returns the blocks of the rows of a tensor, which are along its last dimension.
RowBlocks BlocksOf(const Shape& shape) {
  const int64_t columns = shape.back();
  return {NumElements(absl::MakeConstSpan(shape).first(shape.size() - 1)), columns};
}

// Computes dx of a block of rows. Sets `sums` [2, columns], which the group's sums follow, to the
// block's sums of the gradients of weight and bias.
void SumBlock(const KernelCall& call, const RowBlocks& layout, int64_t block, double* sums) {
  using Input = LayerNormGradInput;
  const TensorView &dy = call.inputs[Input::kDy], &x = call.inputs[Input::kX],
                   &dx = call.outputs[LayerNormGradOutput::kDx];
  const float* const mean = call.inputs[Input::kMean].As<float>();
  const float* const rstd = call.inputs[Input::kRstd].As<float>();
  float* const group = reinterpret_cast<float*>(sums + 2 * layout.columns);
  std::fill_n(sums, 2 * layout.columns, 0.0);
  const int64_t end = std::min(layout.rows, (block + 1) * layout.block_rows);
  for (int64_t begin = block * layout.block_rows; begin < end; begin += RowBlocks::kGroup) {
    std::fill_n(group, 2 * layout.columns, 0.0f);
    for (int64_t r = begin; r < std::min(end, begin + RowBlocks::kGroup); ++r) {
      const int64_t offset = r * layout.columns;
      HWY_DYNAMIC_DISPATCH(LayerNormGradRow)
      (x.dtype, ElementAt(x.dtype, dy.data, offset), ElementAt(x.dtype, x.data, offset),
       call.inputs[Input::kWeight].data, mean[r], rstd[r], layout.columns,
       ElementAt(x.dtype, dx.data, offset), group, group + layout.columns);
    }
    for (int64_t c = 0; c < 2 * layout.columns; ++c) sums[c] += double{group[c]};
  }
}

absl::Status LayerNorm(const KernelCall& call) {
  using Input = LayerNormInput;
  const RowBlocks layout = BlocksOf(call.inputs[Input::kX].shape);
  const double eps = call.request.attributes.GetDouble("eps");
  if (layout.columns == 0) return absl::OkStatus();
  const TensorView &x = call.inputs[Input::kX], &y = call.outputs[LayerNormOutput::kY];
  const int64_t grain = std::max<int64_t>(1, 8192 / layout.columns);
  ParallelFor(call.request.threads, layout.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(LayerNormRow)
      (x.dtype, ElementAt(x.dtype, x.data, r * layout.columns), call.inputs[Input::kWeight].data,
       call.inputs[Input::kBias].data, eps, layout.columns,
       ElementAt(x.dtype, y.data, r * layout.columns),
       call.outputs[LayerNormOutput::kMean].As<float>() + r,
       call.outputs[LayerNormOutput::kRstd].As<float>() + r);
    }
  });
  return absl::OkStatus();
}

int64_t LayerNormGradWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  const RowBlocks layout = BlocksOf(request.inputs[LayerNormGradInput::kDy].shape);
  return layout.blocks * layout.block_bytes();
}

// Writes element i of a row-major tensor, rounded to its dtype.
void WriteRounded(double value, const TensorView& y, int64_t i) {
  WithFloatType(y.dtype, [&](auto type) {
    using T = decltype(type);
    y.As<T>()[i] = Convert<T>(value);
  });
}

absl::Status LayerNormGrad(const KernelCall& call) {
  const RowBlocks layout = BlocksOf(call.inputs[LayerNormGradInput::kDy].shape);
  char* const workspace = static_cast<char*>(call.workspace);
  const auto block_sums = [&](int64_t block) {
    return reinterpret_cast<double*>(workspace + block * layout.block_bytes());
  };
  ParallelFor(call.request.threads, layout.blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      SumBlock(call, layout, block, block_sums(block));
  });
  const TensorView &dweight = call.outputs[LayerNormGradOutput::kDweight],
                   &dbias = call.outputs[LayerNormGradOutput::kDbias];
  ParallelFor(call.request.threads, 2 * layout.columns, 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (int64_t block = 0; block < layout.blocks; ++block) sum += block_sums(block)[i];
      const bool is_bias = i >= layout.columns;
      WriteRounded(sum, is_bias ? dbias : dweight, is_bias ? i - layout.columns : i);
    }
  });
  return absl::OkStatus();
}

}  // namespace

void AddLayerNormKernels(KernelList& list) {
  list.Add("layer_norm", "highway", LayerNorm, kRowMajor);
  Traits grad = WithWorkspace(LayerNormGradWorkspace);
  grad.f32_outputs = 1 << LayerNormGradOutput::kDweight | 1 << LayerNormGradOutput::kDbias;
  list.Add("layer_norm_grad", "highway", LayerNormGrad, grad);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
