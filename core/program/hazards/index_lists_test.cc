#include "core/program/hazards/index_lists.h"

#include "core/ids/id.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IndexLists, HoldsTheIdsOfEachListInTheOrderOfThePairs) {
  using From = Id<struct FromTag>;
  using To = Id<struct ToTag>;
  std::vector<std::pair<From, To>> pairs;
  for (const auto& [from, to] : {std::pair{3, 7}, {0, 5}, {3, 2}, {1, 1}, {3, 7}}) {
    pairs.emplace_back(From(from), To(to));
  }
  const IndexLists<From, To> lists(5, pairs);
  EXPECT_THAT(lists[From(0)], ElementsAre(To(5)));
  EXPECT_THAT(lists[From(1)], ElementsAre(To(1)));
  EXPECT_THAT(lists[From(2)], IsEmpty());
  EXPECT_THAT(lists[From(3)], ElementsAre(To(7), To(2), To(7)));
  EXPECT_THAT(lists[From(4)], IsEmpty());
  EXPECT_THAT((IndexLists<From, To>(1, {})[From(0)]), IsEmpty());
}

}  // namespace
}  // namespace tessera
