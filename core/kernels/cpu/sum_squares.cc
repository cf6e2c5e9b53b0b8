// sum_squares, in double. Blocks have a fixed length, and their sums are added in their order.
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/sum_squares.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/convert_floats.h"
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/parallel.h"
#include "core/kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// Returns the sum of the squares of `count` floats, in double, by four chains of additions.
double SumSquaresOfFloats(const float* x, int64_t count) {
  const DoubleTag d;
  const HalfTag dh;
  constexpr int64_t kStep = hn::MaxLanes(DoubleTag());
  constexpr int kChains = 4;
  Doubles chains[kChains];
  for (Doubles& chain : chains) chain = hn::Zero(d);
  int64_t i = 0;
  for (; i + kChains * kStep <= count; i += kChains * kStep) {
    for (int c = 0; c < kChains; ++c) {
      const Doubles v = hn::PromoteTo(d, hn::LoadU(dh, x + i + c * kStep));
      chains[c] = hn::MulAdd(v, v, chains[c]);
    }
  }
  for (; i < count; i += kStep) {
    const Doubles v = hn::PromoteTo(d, LoadFirst(dh, x + i, HWY_MIN(count - i, kStep)));
    chains[0] = hn::MulAdd(v, v, chains[0]);
  }
  const Doubles sum = hn::Add(hn::Add(chains[0], chains[1]), hn::Add(chains[2], chains[3]));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SumSquaresOfFloats);

constexpr int64_t kBlock = 16384;

int64_t BlockCount(int64_t elements) { return (elements + kBlock - 1) / kBlock; }

int64_t SumSquaresWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return BlockCount(NumElements(request.inputs[0].shape)) * static_cast<int64_t>(sizeof(double));
}

// Returns the sum of the squares of elements [begin, begin + count) of x, of any floating dtype.
double SumSquaresOfRange(const TensorView& x, int64_t begin, int64_t count) {
  if (x.dtype == DType::kF32) {
    return HWY_DYNAMIC_DISPATCH(SumSquaresOfFloats)(x.As<float>() + begin, count);
  }
  constexpr int64_t kTile = 2048;
  alignas(64) float tile[kTile];
  double sum = 0;
  for (int64_t i = 0; i < count; i += kTile) {
    const int64_t tile_count = std::min(kTile, count - i);
    ToFloats(x.dtype, ElementAt(x.dtype, x.data, begin + i), tile_count, tile);
    sum += HWY_DYNAMIC_DISPATCH(SumSquaresOfFloats)(tile, tile_count);
  }
  return sum;
}

absl::Status SumSquares(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const int64_t elements = x.elements(), blocks = BlockCount(elements);
  double* const sums = static_cast<double*>(call.workspace);
  ParallelFor(call.request.threads, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      sums[b] = SumSquaresOfRange(x, b * kBlock, std::min(kBlock, elements - b * kBlock));
    }
  });
  double sum = 0;
  for (int64_t b = 0; b < blocks; ++b) sum += sums[b];
  *call.outputs[0].As<float>() = static_cast<float>(sum);
  return absl::OkStatus();
}

}  // namespace

void AddSumSquaresKernels(KernelList& list) {
  list.Add("sum_squares", "highway", SumSquares, WithWorkspace(SumSquaresWorkspace));
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
