// Short vectors at the end of memory: memory past them is neither read nor written.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "core/kernels/cpu/targets.h"
// The file includes itself once for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/kernels/cpu/vectors_test.cc"
#include "hwy/foreach_target.h"
// After the above.
#include "core/kernels/cpu/testing/targets.h"
#include "core/kernels/cpu/vectors-inl.h"
#include "gtest/gtest.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {

// `end` is the end of the accessible memory.
template <bool kMasked>
void CheckAccess(float* end) {
  const FloatTag d;
  for (int64_t count = 1; count <= kLanes; ++count) {
    float* const array = end - count;
    for (int64_t i = 0; i < count; ++i) array[i] = static_cast<float>(i + 1);
    HWY_ALIGN float lanes[kLanes];
    hn::Store(LoadFirst<kMasked>(d, array, count), d, lanes);
    for (int64_t i = 0; i < kLanes; ++i) {
      EXPECT_EQ(lanes[i], i < count ? static_cast<float>(i + 1) : 0.0f) << i << " of " << count;
    }
    array[-1] = -7;
    StoreFirst<kMasked>(hn::Set(d, 5.0f), array, count);
    EXPECT_EQ(array[-1], -7.0f);
    for (int64_t i = 0; i < count; ++i) EXPECT_EQ(array[i], 5.0f) << i << " of " << count;
  }
}

void CheckShortVectors(float* end) {
  CheckAccess<kHasMaskedAccess>(end);
  CheckAccess<false>(end);  // as on processors without masked loads and stores
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

HWY_EXPORT(CheckShortVectors);

using VectorsTest = TargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, VectorsTest, ::testing::ValuesIn(RunnableTargets()),
                         NameOfTarget);

TEST_P(VectorsTest, ShortVectorsLeaveTheirNeighboursAlone) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  void* const pages =
      mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  char* const end = static_cast<char*>(pages) + page;
  ASSERT_EQ(mprotect(end, page, PROT_NONE), 0);
  HWY_DYNAMIC_DISPATCH(CheckShortVectors)(reinterpret_cast<float*>(end));
  munmap(pages, 2 * page);
}

}  // namespace
}  // namespace tessera::cpu
#endif  // HWY_ONCE
