#include "tools/emulate/host_rank.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(HostRank, HostsShareNoCore) {
  const HostRanks ranks = {1, {"a", "b"}, {0, 2, 1, 3, 4}};
  EXPECT_EQ(PlaceRank(ranks, 0).cores, (std::vector<int>{0, 2}));
  EXPECT_EQ(PlaceRank(ranks, 1).cores, (std::vector<int>{1, 3}));
  EXPECT_EQ(PlaceRank(ranks, 1).host, 1);
  EXPECT_EQ(PlaceRank(ranks, 1).local_rank, 0);
}

TEST(HostRank, RanksOfAHostShareItsCoresOut) {
  const HostRanks ranks = {2, {"a", "b"}, {0, 1, 2, 3}};
  EXPECT_EQ(PlaceRank(ranks, 1).cores, std::vector<int>{1});
  EXPECT_EQ(PlaceRank(ranks, 2).cores, std::vector<int>{2});
  EXPECT_EQ(PlaceRank(ranks, 3).host, 1);
  EXPECT_EQ(PlaceRank(ranks, 3).local_rank, 1);
}

TEST(HostRank, UnevenRanksRunOnAllCoresOfTheirHost) {
  const HostRanks ranks = {2, {"a", "b"}, {0, 1, 2, 3, 4, 5}};
  EXPECT_EQ(PlaceRank(ranks, 0).cores, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(PlaceRank(ranks, 3).cores, (std::vector<int>{3, 4, 5}));
}

TEST(HostRank, CoresThatAreNotSharedOutAreNotNamed) {
  EXPECT_EQ(PlaceRank({2, {"a", "b"}, {}}, 3).cores, std::vector<int>{});
}

TEST(HostRank, ArgumentsNameHostsAndProgram) {
  EXPECT_EQ(HostRankArguments({2, {"a", "b"}, {0, 1}}, "sh", {"-c", "x"}),
            (std::vector<std::string>{"tessera-host-rank", "2", "a,b", "0,1", "sh", "-c", "x"}));
}

}  // namespace
}  // namespace tessera
