#include "collectives/shm/segment.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "gtest/gtest.h"

namespace {

// The most bytes that are reserved before the next signal arrives; longer pieces are undone.
int64_t bytes_between_signals = INT64_MAX;
int64_t interrupted = 0;
constexpr int64_t kMostInterruptions = 1000;

}  // namespace

// Takes the place of the C library's function, and behaves as tmpfs of Linux 5 does when a timer
// sends signals. Newer systems finish the piece.
extern "C" int posix_fallocate(int descriptor, off_t begin, off_t bytes) {
  if (bytes > bytes_between_signals) return ++interrupted < kMostInterruptions ? EINTR : EIO;
  return fallocate(descriptor, 0, begin, bytes) == 0 ? 0 : errno;
}

namespace tessera::comm::shm {
namespace {

// Regression: a piece that a signal had undone was begun again and again, and never ended.
TEST(SegmentTest, SignalsOfATimerDoNotKeepItFromBeingMade) {
  constexpr int64_t kBytes = (int64_t{40} << 20) + 5;
  for (const int64_t between : {int64_t{8} << 20, int64_t{64} << 10}) {
    bytes_between_signals = between;
    interrupted = 0;
    const auto segment = Segment::Create(kBytes);
    ASSERT_TRUE(segment.ok()) << segment.status();
    EXPECT_GT(interrupted, 0);
    for (const int64_t at : {int64_t{0}, kBytes / 2, kBytes - 1}) {
      EXPECT_EQ((*segment)->data()[at], 0);
      (*segment)->data()[at] = 1;
    }
  }
}

}  // namespace
}  // namespace tessera::comm::shm
