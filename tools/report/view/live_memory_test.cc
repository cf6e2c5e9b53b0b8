#include "tools/report/view/live_memory.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// Returns a Program of `count` instructions, each of which has a buffer; that of `peak` is larger.
Program ManyBuffers(int count, int peak) {
  Program program;
  program.instructions.resize(count);
  for (int i = 0; i < count; ++i) {
    Buffer buffer;
    buffer.bytes = i == peak ? 640 : 64 * (1 + i % 3);
    buffer.first = buffer.last = i;
    program.buffers.push_back(buffer);
  }
  return program;
}

Table<InstructionId, TimeSpan> OneAfterAnother(int count) {
  Table<InstructionId, TimeSpan> times;
  for (int i = 0; i < count; ++i) times.push_back({1.0 * i, 1.0 * i + 1});
  return times;
}

TEST(LiveMemoryTest, FewPointsAreKept) {
  const auto memory = LiveMemoryOf(ManyBuffers(4, 2), OneAfterAnother(4));
  ASSERT_EQ(memory.size(), 1);
  // Before the step, four instructions, and the end.
  ASSERT_EQ(memory[0].points.size(), 6);
  EXPECT_EQ(memory[0].peak, 3);
  EXPECT_EQ(memory[0].peak_point().seconds, 2);
  EXPECT_EQ(memory[0].peak_point().total(), 640);
  EXPECT_EQ(memory[0].points.back().seconds, 4);
  EXPECT_EQ(memory[0].points.back().total(), 0);
}

TEST(LiveMemoryTest, ThePeakOfManyPointsIsExact) {
  for (const int peak : {0, 1, 4999, 9998, 9999}) {
    const auto memory = LiveMemoryOf(ManyBuffers(10000, peak), OneAfterAnother(10000), 100);
    EXPECT_LE(memory[0].points.size(), 100);
    EXPECT_EQ(memory[0].peak_point().total(), 640);
    EXPECT_EQ(memory[0].peak_point().seconds, peak);
  }
}

// A collective may begin after a later instruction of the Program does.
TEST(LiveMemoryTest, TimeDoesNotRunBackward) {
  Table<InstructionId, TimeSpan> times;
  times.push_back({0, 1});
  times.push_back({3, 4});
  times.push_back({1, 2});
  const auto memory = LiveMemoryOf(ManyBuffers(3, 2), times);
  for (size_t i = 1; i < memory[0].points.size(); ++i) {
    EXPECT_GE(memory[0].points[i].seconds, memory[0].points[i - 1].seconds);
  }
  EXPECT_EQ(memory[0].peak_point().seconds, 3);
}

}  // namespace
}  // namespace tessera
