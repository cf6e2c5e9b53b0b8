#include "core/program/memory/assign_offsets.h"

#include <vector>

#include "core/program/testing/live_ranges.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

void ExpectValid(const std::vector<LiveRange>& ranges, const Assignment& assignment) {
  ASSERT_EQ(assignment.offsets.size(), ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    ASSERT_GE(assignment.offsets[i], 0);
    ASSERT_EQ(assignment.offsets[i] % 64, 0);
    ASSERT_LE(assignment.offsets[i] + ranges[i].bytes, assignment.bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool in_time = ranges[i].first <= ranges[j].last && ranges[j].first <= ranges[i].last;
      const bool in_space = assignment.offsets[i] < assignment.offsets[j] + ranges[j].bytes &&
                            assignment.offsets[j] < assignment.offsets[i] + ranges[i].bytes;
      ASSERT_FALSE(in_time && in_space) << i << " and " << j;
    }
  }
}

TEST(AssignOffsets, SharesNothingThatIsLiveAtOnce) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<LiveRange> ranges = RandomLiveRanges(200, 100, seed);
    const Assignment assignment = AssignOffsets(ranges);
    ExpectValid(ranges, assignment);
    EXPECT_GE(assignment.bytes, LiveBytesBound(ranges));
    EXPECT_LE(assignment.bytes, LiveBytesBound(ranges) * 1.25);
  }
}

TEST(AssignOffsets, ReusesMemoryOfWhatHasEnded) {
  const std::vector<LiveRange> ranges = {{128, 0, 1}, {128, 2, 3}, {64, 1, 2}};
  EXPECT_EQ(AssignOffsets(ranges).bytes, 192);
}

TEST(AssignOffsets, OneWhoseLastStepIsAnothersFirstOverlapsIt) {
  const std::vector<LiveRange> ranges = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(AssignOffsets(ranges).bytes, 128);
}

// Regression: above 20,000 ranges only one order was tried. After a first fix, steps with few
// layers still took 19 % more than the bound.
TEST(AssignOffsets, ManyMicroBatchesComeWithinFivePercentOfTheBound) {
  for (const std::vector<LiveRange>& ranges :
       {TrainingLiveRanges(12, 340), TrainingLiveRanges(96, 43),
        RandomLiveRanges(100000, 300000, 1)}) {
    const Assignment assignment = AssignOffsets(ranges);
    const double bound = static_cast<double>(LiveBytesBound(ranges));
    EXPECT_GE(static_cast<double>(assignment.bytes), bound);
    EXPECT_LE(static_cast<double>(assignment.bytes), 1.05 * bound);
  }
}

// Regression: removing a gap iterated over all gaps of its size.
TEST(AssignOffsets, ManyEqualGapsTakeNoSquare) {
  // Every second one of 400,000 adjacent ranges ends at once: 200,000 equal gaps, which then grow.
  std::vector<LiveRange> ranges;
  for (int i = 0; i < 400000; ++i) ranges.push_back({64, 0, i % 2 == 0 ? 1 : 2 + i % 3});
  for (int i = 0; i < 100000; ++i) ranges.push_back({128, 5 + i % 7, 20});
  EXPECT_EQ(AssignOffsets(ranges).bytes, LiveBytesBound(ranges));
}

TEST(AssignOffsets, ManyRangesDoNotOverlap) {
  const std::vector<LiveRange> many = TrainingLiveRanges(12, 70);
  ASSERT_GT(many.size(), 20000u);
  const Assignment assignment = AssignOffsets(many);
  std::vector<LiveRange> some(many.begin(), many.begin() + 3000);
  Assignment of_some = assignment;
  of_some.offsets.resize(3000);
  ExpectValid(some, of_some);
}

TEST(AssignOffsets, NothingTakesNothing) { EXPECT_EQ(AssignOffsets({}).bytes, 0); }

TEST(LiveBytesBound, IsTheFullestMoment) {
  EXPECT_EQ(LiveBytesBound(std::vector<LiveRange>{{64, 0, 3}, {64, 1, 1}, {128, 2, 2}}), 192);
}

}  // namespace
}  // namespace tessera
