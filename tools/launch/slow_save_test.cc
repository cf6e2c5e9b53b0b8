#include <gtest/gtest.h>

#include "tools/launch/testing/launched.h"

namespace tessera::comm {
namespace {

// Regression: rank 0 waited for 60 s until the others had left, whatever its time-out, and then
// failed a job whose last rank was still saving its state.
TEST(SlowSaveTest, ARankMaySaveForLongerThanAnyTimeout) {
  const Ended ended = RunLauncher({"--nproc=2", TestRank(), "--seconds=10", "--save=62"});
  EXPECT_EQ(ended.exit_code, 0) << ended.error;
}

}  // namespace
}  // namespace tessera::comm
