#include "tools/strategy_entry/default_strategies.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

TEST(DefaultStrategiesTest, TheOneThatSearchesComesAfterTwoThatDoNot) {
  const std::vector<StrategyEntry> entries = DefaultStrategies();
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, "ddp");
  EXPECT_EQ(entries[1].label, "fsdp");
  EXPECT_FALSE(entries[0].limit_between || entries[1].limit_between);
  EXPECT_EQ(entries[2].name, "osdp");
  EXPECT_TRUE(entries[2].limit_between);
  EXPECT_EQ(entries[3].name, "tensor");
  EXPECT_FALSE(entries[3].limit_between);
}

TEST(LimitBetweenTest, IsHalfWayBetweenTwoPeaks) {
  const DerivedLimit limit = LimitBetween({{"ddp", 4 << 20}, {"fsdp", 2 << 20}});
  EXPECT_EQ(limit.bytes, 3 << 20);
  EXPECT_EQ(limit.note,
            "its memory limit is 3.00 MiB (--memory_limit=3145728), half way between the peaks of "
            "ddp (4.00 MiB) and fsdp (2.00 MiB)");
  EXPECT_EQ(LimitBetween({{"a", 10}, {"b", 13}, {"c", 99}}).bytes, 11);
}

TEST(LimitBetweenTest, ThereIsNoneWithoutTwoPeaks) {
  const DerivedLimit limit = LimitBetween({{"ddp", 10}});
  EXPECT_EQ(limit.bytes, 0);
  EXPECT_THAT(limit.note, HasSubstr("no memory limit of its own"));
}

}  // namespace
}  // namespace tessera
