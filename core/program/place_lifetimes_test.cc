#include "core/program/place_lifetimes.h"

#include <vector>

#include "core/program/testing_lifetimes.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

void ExpectValid(const std::vector<Lifetime>& lifetimes, const Placement& placement) {
  ASSERT_EQ(placement.offsets.size(), lifetimes.size());
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    ASSERT_GE(placement.offsets[i], 0);
    ASSERT_EQ(placement.offsets[i] % 64, 0);
    ASSERT_LE(placement.offsets[i] + lifetimes[i].bytes, placement.bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool in_time =
          lifetimes[i].first <= lifetimes[j].last && lifetimes[j].first <= lifetimes[i].last;
      const bool in_space = placement.offsets[i] < placement.offsets[j] + lifetimes[j].bytes &&
                            placement.offsets[j] < placement.offsets[i] + lifetimes[i].bytes;
      ASSERT_FALSE(in_time && in_space) << i << " and " << j;
    }
  }
}

TEST(PlaceLifetimes, SharesNothingThatIsLiveAtOnce) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::vector<Lifetime> lifetimes = RandomLifetimes(200, 100, seed);
    const Placement placement = PlaceLifetimes(lifetimes);
    ExpectValid(lifetimes, placement);
    EXPECT_GE(placement.bytes, LiveBytesBound(lifetimes));
    EXPECT_LE(placement.bytes, LiveBytesBound(lifetimes) * 1.25);
  }
}

TEST(PlaceLifetimes, ReusesMemoryOfWhatHasEnded) {
  const std::vector<Lifetime> lifetimes = {{128, 0, 1}, {128, 2, 3}, {64, 1, 2}};
  EXPECT_EQ(PlaceLifetimes(lifetimes).bytes, 192);
}

TEST(PlaceLifetimes, OneWhoseLastStepIsAnothersFirstOverlapsIt) {
  const std::vector<Lifetime> lifetimes = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(PlaceLifetimes(lifetimes).bytes, 128);
}

// Above 20,000 lifetimes, only one order was tried. Later, steps of few layers took 19 % more than
// the bound.
TEST(PlaceLifetimes, PlacesManyMicroBatchesWithinFivePercentOfTheBound) {
  for (const std::vector<Lifetime>& lifetimes :
       {TrainingLifetimes(12, 340), TrainingLifetimes(96, 43),
        RandomLifetimes(100000, 300000, 1)}) {
    const Placement placement = PlaceLifetimes(lifetimes);
    const double bound = static_cast<double>(LiveBytesBound(lifetimes));
    EXPECT_GE(static_cast<double>(placement.bytes), bound);
    EXPECT_LE(static_cast<double>(placement.bytes), 1.05 * bound);
  }
}

// Removing a gap walked along all gaps of its size.
TEST(PlaceLifetimes, ManyEqualGapsTakeNoSquare) {
  // Every second one of 400,000 neighbours ends at once: 200,000 equal gaps, which then grow.
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < 400000; ++i) lifetimes.push_back({64, 0, i % 2 == 0 ? 1 : 2 + i % 3});
  for (int i = 0; i < 100000; ++i) lifetimes.push_back({128, 5 + i % 7, 20});
  EXPECT_EQ(PlaceLifetimes(lifetimes).bytes, LiveBytesBound(lifetimes));
}

TEST(PlaceLifetimes, ManyLifetimesDoNotOverlap) {
  const std::vector<Lifetime> many = TrainingLifetimes(12, 70);
  ASSERT_GT(many.size(), 20000u);
  const Placement placement = PlaceLifetimes(many);
  std::vector<Lifetime> some(many.begin(), many.begin() + 3000);
  Placement of_some = placement;
  of_some.offsets.resize(3000);
  ExpectValid(some, of_some);
}

TEST(PlaceLifetimes, NothingTakesNothing) { EXPECT_EQ(PlaceLifetimes({}).bytes, 0); }

TEST(LiveBytesBound, IsTheFullestMoment) {
  EXPECT_EQ(LiveBytesBound(std::vector<Lifetime>{{64, 0, 3}, {64, 1, 1}, {128, 2, 2}}), 192);
}

}  // namespace
}  // namespace tessera
