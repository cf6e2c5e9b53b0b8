#include "core/program/hazards/index_lists.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IndexLists, HoldsTheNumbersOfEachListInTheOrderOfThePairs) {
  const std::vector<std::pair<int32_t, int32_t>> pairs = {{3, 7}, {0, 5}, {3, 2}, {1, 1}, {3, 7}};
  const IndexLists lists(5, pairs);
  EXPECT_THAT(lists[0], ElementsAre(5));
  EXPECT_THAT(lists[1], ElementsAre(1));
  EXPECT_THAT(lists[2], IsEmpty());
  EXPECT_THAT(lists[3], ElementsAre(7, 2, 7));
  EXPECT_THAT(lists[4], IsEmpty());
  EXPECT_THAT(IndexLists(1, {})[0], IsEmpty());
}

}  // namespace
}  // namespace tessera
