#include "core/tensor/rank_placement.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using testing::ElementsAre;

TEST(RankPlacementTest, ConsecutiveRanksOnEachHostAreRegular) {
  const RankPlacement placement = PlaceRanks({7, 7, 3, 3, 5, 5});
  EXPECT_THAT(placement.hosts,
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_EQ(placement.places[3].host, 1);
  EXPECT_EQ(placement.places[3].local, 1);
  EXPECT_EQ(placement.rails, 2);
  EXPECT_TRUE(placement.is_regular);
  EXPECT_TRUE(placement.keeps_order);
}

TEST(RankPlacementTest, ThreeOnEachHostAreSummedInAnotherOrder) {
  const RankPlacement placement = PlaceRanks({0, 0, 0, 1, 1, 1});
  EXPECT_EQ(placement.rails, 3);
  EXPECT_TRUE(placement.is_regular);
  EXPECT_FALSE(placement.keeps_order);
}

TEST(RankPlacementTest, HostsMayHaveDifferentNumbers) {
  const RankPlacement placement = PlaceRanks({0, 0, 1, 2, 2, 2});
  EXPECT_EQ(placement.rails, 1);
  EXPECT_FALSE(placement.is_regular);
  EXPECT_FALSE(placement.keeps_order);
}

TEST(RankPlacementTest, RanksMayAlternateBetweenHosts) {
  const RankPlacement placement = PlaceRanks({0, 1, 0, 1});
  EXPECT_THAT(placement.hosts, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_EQ(placement.rails, 2);
  EXPECT_FALSE(placement.is_regular);
}

// There is no second rail, because in its order of ranks the second host would come first.
TEST(RankPlacementTest, RailsHaveTheOrderOfTheHosts) {
  const RankPlacement placement = PlaceRanks({0, 1, 1, 0});
  EXPECT_EQ(placement.rails, 1);
  EXPECT_FALSE(placement.is_regular);
}

TEST(RankPlacementTest, OneHostIsRegular) {
  const RankPlacement placement = PlaceRanks({4, 4, 4});
  EXPECT_EQ(placement.host_count(), 1);
  EXPECT_EQ(placement.rails, 3);
  EXPECT_TRUE(placement.keeps_order);
}

}  // namespace
}  // namespace tessera
