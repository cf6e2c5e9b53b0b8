// reduce_sum: in double (reduction.h).
#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/reduce_sum.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/kernel_list.h"
#include "core/kernels/cpu/reduction.h"
#include "core/kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kStep = hn::MaxLanes(DoubleTag());

// Returns the sum of a row, in double, by four chains of additions.
double SumRow(const float* x, int64_t count) {
  const DoubleTag d;
  const HalfTag dh;
  constexpr int kChains = 4;
  Doubles chains[kChains];
  for (Doubles& chain : chains) chain = hn::Zero(d);
  int64_t i = 0;
  for (; i + kChains * kStep <= count; i += kChains * kStep) {
    for (int c = 0; c < kChains; ++c) {
      chains[c] = hn::Add(chains[c], hn::PromoteTo(d, hn::LoadU(dh, x + i + c * kStep)));
    }
  }
  for (; i < count; i += kStep) {
    chains[0] =
        hn::Add(chains[0], hn::PromoteTo(d, LoadFirst(dh, x + i, HWY_MIN(count - i, kStep))));
  }
  const Doubles sum = hn::Add(hn::Add(chains[0], chains[1]), hn::Add(chains[2], chains[3]));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// Adds the rows to `result`, column by column: four rows at a time, and the remaining rows one by
// one.
void SumColumns(const float* x, int64_t rows, int64_t stride, int64_t width, double* result) {
  const DoubleTag d;
  const HalfTag dh;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const float* const row = x + r * stride;
    int64_t c = 0;
    for (; c + kStep <= width; c += kStep) {
      const Doubles low = hn::Add(hn::PromoteTo(d, hn::LoadU(dh, row + c)),
                                  hn::PromoteTo(d, hn::LoadU(dh, row + c + stride)));
      const Doubles high = hn::Add(hn::PromoteTo(d, hn::LoadU(dh, row + c + 2 * stride)),
                                   hn::PromoteTo(d, hn::LoadU(dh, row + c + 3 * stride)));
      hn::StoreU(hn::Add(hn::LoadU(d, result + c), hn::Add(low, high)), d, result + c);
    }
    // These columns give the same bits: an addition of doubles is the same in scalars and in
    // vectors.
    for (; c < width; ++c) {
      const double low = double{row[c]} + double{row[c + stride]};
      const double high = double{row[c + 2 * stride]} + double{row[c + 3 * stride]};
      result[c] += low + high;
    }
  }
  for (; r < rows; ++r) {
    const float* const row = x + r * stride;
    for (int64_t c = 0; c < width; ++c) result[c] += double{row[c]};
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(SumRow);
HWY_EXPORT(SumColumns);

void AddSums(const double* from, int64_t count, double* result) {
  for (int64_t i = 0; i < count; ++i) result[i] += from[i];
}

int64_t ReduceSumWorkspace(const KernelRequest& request, const Processor& /*processor*/) {
  return ReductionWorkspace(request);
}

absl::Status ReduceSum(const KernelCall& call) {
  Reduce(call, {.identity = 0,
                .row = HWY_DYNAMIC_DISPATCH(SumRow),
                .columns = HWY_DYNAMIC_DISPATCH(SumColumns),
                .combine = AddSums});
  return absl::OkStatus();
}

}  // namespace

void AddReduceSumKernels(KernelList& list) {
  Traits traits = WithWorkspace(ReduceSumWorkspace);
  traits.f32_outputs = 1;
  list.Add("reduce_sum", "highway", ReduceSum, traits);
}

}  // namespace tessera::cpu
#endif  // HWY_ONCE
