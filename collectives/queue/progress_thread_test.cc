#include "collectives/queue/progress_thread.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "core/posix/time_slice.h"
#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Returns whether `flag` becomes false within a time that only a defect exceeds.
bool Falls(const std::atomic<bool>& flag) {
  for (int i = 0; i < 20'000 && flag; ++i) std::this_thread::sleep_for(microseconds(500));
  return !flag;
}

// The thread goes to sleep 20 ms after it last had work. Work that arrives at that moment is
// noticed too.
TEST(ProgressThreadTest, SeesToWhatComesAtAnyTime) {
  std::atomic<bool> needed = false;
  ProgressThread thread([&] { return needed.exchange(false); });
  for (int round = 0; round < 60; ++round) {
    std::this_thread::sleep_for(microseconds(18'500 + 50 * round));
    needed = true;
    thread.Wake(/*at_once=*/false);
    ASSERT_TRUE(Falls(needed)) << "round " << round;
  }
}

// While another thread waits, the thread keeps polling and needs no Wake.
TEST(ProgressThreadTest, StaysUpWhileSomebodyIsAtIt) {
  std::atomic<bool> is_waited_for = true, needed = true;
  ProgressThread thread([&] { return is_waited_for || needed.exchange(false); });
  thread.Wake(/*at_once=*/true);
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_TRUE(needed);
  is_waited_for = false;
  EXPECT_TRUE(Falls(needed));
}

// With it, a thread that wakes up interrupts computation.
TEST(ProgressThreadTest, HasAShortTimeSlice) {
  if (TimeSlice() == std::chrono::nanoseconds(0)) {
    GTEST_SKIP() << "the system reports no time slices of threads (needs Linux 6.12)";
  }
  std::atomic<int64_t> slice = 0;
  std::atomic<bool> needed = true;
  ProgressThread thread([&] {
    slice = TimeSlice().count();
    return needed.exchange(false);
  });
  thread.Wake(/*at_once=*/true);
  ASSERT_TRUE(Falls(needed));
  EXPECT_EQ(slice, 100'000);
}

TEST(ProgressThreadTest, IsNotCalledAfterJoin) {
  std::atomic<int> calls = 0;
  ProgressThread thread([&] { return ++calls > 0; });
  thread.Wake(/*at_once=*/true);
  thread.Join();
  EXPECT_TRUE(thread.is_stopped());
  const int before = calls;
  thread.Wake(/*at_once=*/true);
  std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(calls, before);
  thread.Join();
}

}  // namespace
}  // namespace tessera::comm
