#include "collectives/requests.h"

#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

TEST(WishTest, SaysWhatARequestDoes) {
  const Request request = {.operation = Operation::kReduceScatter,
                           .dtype = DType::kBF16,
                           .reduction = Reduction::kMax,
                           .count = 7,
                           .part = 4,
                           .partial = true};
  EXPECT_TRUE(IsWish(WishOf(request)));
  EXPECT_EQ(Describe(RequestOf(WishOf(request))), Describe(request));
}

// What a peer sent may be anything.
TEST(WishTest, BytesThatAreNoneAreSaidToBeNone) {
  Wish wish;
  std::memset(static_cast<void*>(&wish), 0xff, sizeof(wish));
  EXPECT_FALSE(IsWish(wish));
  EXPECT_EQ(
      Disagreement("world", 3, {0, 2}, {Wish(), wish}).message(),
      "the ranks of group 'world' disagree on operation 3: rank 0 wants barrier, rank 2 wants "
      "what is no operation");
}

}  // namespace
}  // namespace tessera::comm
