#include "core/posix/time_slice.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace tessera {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(TimeSliceTest, IsThatOfTheCallingThreadAndLeavesItsNiceValue) {
  const nanoseconds before = TimeSlice();
  if (before == nanoseconds(0)) {
    GTEST_SKIP() << "the system reports no time slices of threads (needs Linux 6.12)";
  }
  std::thread([before] {
    const id_t thread = gettid();
    ASSERT_EQ(setpriority(PRIO_PROCESS, thread, 5), 0);
    SetTimeSlice(microseconds(500));
    EXPECT_EQ(TimeSlice(), microseconds(500));
    EXPECT_EQ(getpriority(PRIO_PROCESS, thread), 5);
    // Shorter than the shortest.
    SetTimeSlice(microseconds(1));
    EXPECT_EQ(TimeSlice(), microseconds(100));
    EXPECT_NE(before, microseconds(100));
  }).join();
  EXPECT_EQ(TimeSlice(), before);
}

}  // namespace
}  // namespace tessera
