#include "core/program/memory_plan.h"

#include <random>
#include <vector>

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

std::vector<Lifetime> RandomLifetimes(int count, int steps, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Lifetime> lifetimes;
  for (int i = 0; i < count; ++i) {
    const int32_t first = static_cast<int32_t>(random() % steps);
    const int32_t last = first + static_cast<int32_t>(random() % (random() % 8 == 0 ? steps : 5));
    lifetimes.push_back({static_cast<int64_t>(64 * (1 + random() % 1000)), first, last});
  }
  return lifetimes;
}

TEST(PlaceLifetimes, SharesNothingThatLivesAtOnce) {
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

TEST(PlaceLifetimes, OneWhoseLastStepIsAnothersFirstMeetsIt) {
  const std::vector<Lifetime> lifetimes = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(PlaceLifetimes(lifetimes).bytes, 128);
}

TEST(PlaceLifetimes, HandlesManyInTime) {
  const std::vector<Lifetime> lifetimes = RandomLifetimes(300000, 1000000, 1);
  const Placement placement = PlaceLifetimes(lifetimes);
  EXPECT_GE(placement.bytes, LiveBytesBound(lifetimes));
}

TEST(PlaceLifetimes, TheWalkThroughTimeIsValidToo) {
  // More lifetimes than the placements by pairs take.
  const std::vector<Lifetime> many = RandomLifetimes(20500, 4000000, 7);
  const Placement placement = PlaceLifetimes(many);
  std::vector<Lifetime> some(many.begin(), many.begin() + 2000);
  Placement of_some = placement;
  of_some.offsets.resize(2000);
  ExpectValid(some, of_some);
}

TEST(PlaceLifetimes, NothingTakesNothing) { EXPECT_EQ(PlaceLifetimes({}).bytes, 0); }

TEST(LiveBytesBound, IsTheFullestMoment) {
  EXPECT_EQ(LiveBytesBound(std::vector<Lifetime>{{64, 0, 3}, {64, 1, 1}, {128, 2, 2}}), 192);
}

}  // namespace
}  // namespace tessera
