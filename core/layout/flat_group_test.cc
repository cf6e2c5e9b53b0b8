#include "core/layout/flat_group.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using Range = FlatGroup::Range;

FlatGroup MakeGroup(const std::vector<FlatGroup::Member>& members, int ranks) {
  absl::StatusOr<FlatGroup> group = FlatGroup::Create(members, ranks);
  EXPECT_TRUE(group.ok()) << group.status();
  return *std::move(group);
}

TEST(FlatGroupTest, MembersFollowEachOtherAndAreSplitLast) {
  const FlatGroup group = MakeGroup({{{2, 3}}, {{4}}, {{}}}, 2);
  EXPECT_EQ(group.part(), 6);
  EXPECT_EQ(group.elements(), 12);
  EXPECT_EQ(group.InGathered(1), (Range{6, 10}));
  EXPECT_EQ(group.Held(0, 0), (Range{0, 6}));
  EXPECT_EQ(group.Held(0, 1).size(), 0);
  EXPECT_EQ(group.InPart(1, 1), (Range{0, 4}));
  EXPECT_EQ(group.InPart(2, 1), (Range{4, 5}));
}

TEST(FlatGroupTest, PartsHoldEveryElementOnce) {
  for (int ranks : {1, 2, 3, 4, 8}) {
    const std::vector<FlatGroup::Member> members = {{{5, 3}}, {{0}}, {{7}}, {{1}}};
    const FlatGroup group = MakeGroup(members, ranks);
    EXPECT_LT(group.elements() - 23, ranks);
    for (int m = 0; m < group.num_members(); ++m) {
      int64_t next = 0;
      for (int c = 0; c < ranks; ++c) {
        const Range held = group.Held(m, c), in_part = group.InPart(m, c);
        EXPECT_EQ(held.size(), in_part.size());
        if (held.size() == 0) continue;
        EXPECT_EQ(held.begin, next);
        EXPECT_EQ(c * group.part() + in_part.begin, group.InGathered(m).begin + held.begin);
        EXPECT_LE(in_part.end, group.part());
        next = held.end;
      }
      EXPECT_EQ(next, NumElements(members[m].local));
    }
  }
}

TEST(FlatGroupTest, PartsEndAtBlocks) {
  const std::vector<FlatGroup::Member> members = {{{5}}, {{7, 4}, 4}, {{6, 6}, 6}};
  for (int ranks : {1, 2, 3, 5}) {
    const FlatGroup group = MakeGroup(members, ranks);
    for (int m = 0; m < group.num_members(); ++m) {
      for (int c = 0; c < ranks; ++c) {
        EXPECT_EQ(group.Held(m, c).begin % members[m].block, 0);
        if (group.Held(m, c).end != NumElements(members[m].local)) {
          EXPECT_EQ(group.Held(m, c).end % members[m].block, 0);
        }
      }
    }
  }
}

TEST(FlatGroupTest, ErrorsNameTheMember) {
  const std::vector<FlatGroup::Member> no_block = {{{5}, 0}};
  EXPECT_THAT(FlatGroup::Create(no_block, 2).status().message(),
              HasSubstr("member 0 of a flat group asks for blocks of 0 elements"));
  const std::vector<FlatGroup::Member> large = {{{int64_t{1} << 60}}, {{1}}};
  EXPECT_THAT(FlatGroup::Create(large, 2).status().message(), HasSubstr("with member 1, [1]"));
  const std::vector<FlatGroup::Member> primes = {{{1}, (int64_t{1} << 31) - 1},
                                                 {{1}, (int64_t{1} << 30) + 3}};
  EXPECT_THAT(FlatGroup::Create(primes, 2).status().message(), HasSubstr("member 1"));
}

}  // namespace
}  // namespace tessera
