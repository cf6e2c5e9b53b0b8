#include "tools/train/setup/machine_rates.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// Measuring took 512 MiB, or 50 MB for a matmul, whatever its container had left.
TEST(MachineRatesTest, AreMeasuredInHalfOfWhatIsAvailable) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  EXPECT_EQ(WithinMemory({}, 8 * kMiB).memory_bytes, 4 * kMiB);
  EXPECT_EQ(WithinMemory({.memory_bytes = kMiB}, 8 * kMiB).memory_bytes, kMiB);
  EXPECT_EQ(WithinMemory({.memory_bytes = kMiB}, 0).memory_bytes, kMiB);
}

}  // namespace
}  // namespace tessera
