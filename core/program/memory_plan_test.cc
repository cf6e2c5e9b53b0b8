#include "core/program/memory_plan.h"

#include "gtest/gtest.h"

namespace tessera {
namespace {

int64_t BytesAtPeak(const MemoryReport& report, Category category) {
  return report.bytes_at_peak[static_cast<size_t>(category)];
}

// A buffer that was taken over by a gradient counted as gradients also while it held an activation.
TEST(ReportMemory, CountsAReusedBufferAsWhatItHoldsAtThePeak) {
  Program program;
  program.instructions.resize(4);
  Buffer reused;
  reused.bytes = 64;
  reused.first = 0;
  reused.last = 3;
  reused.changes = {{2, Category::kGradients}};
  Buffer other;
  other.bytes = 128;
  for (const int32_t peak : {1, 2}) {
    other.first = other.last = peak;
    program.buffers = {reused, other};
    const MemoryReport report = ReportMemory(program);
    EXPECT_EQ(report.peak_instruction, peak);
    EXPECT_EQ(BytesAtPeak(report, Category::kActivations), peak == 1 ? 192 : 128);
    EXPECT_EQ(BytesAtPeak(report, Category::kGradients), peak == 1 ? 0 : 64);
  }
}

}  // namespace
}  // namespace tessera
