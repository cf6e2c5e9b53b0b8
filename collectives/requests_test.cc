#include "collectives/requests.h"

#include <cstring>

#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

TEST(RequestDescriptorTest, HasAllOfARequestButItsBuffers) {
  const Request request = {.operation = Operation::kReduceScatter,
                           .dtype = DType::kBF16,
                           .reduction = Reduction::kMax,
                           .count = 7,
                           .part = 4,
                           .partial = true};
  EXPECT_TRUE(IsValid(DescriptorOf(request)));
  EXPECT_EQ(Describe(RequestOf(DescriptorOf(request))), Describe(request));
}

// A peer may send arbitrary bytes.
TEST(RequestDescriptorTest, InvalidBytesAreReportedAsSuch) {
  RequestDescriptor descriptor;
  std::memset(static_cast<void*>(&descriptor), 0xff, sizeof(descriptor));
  EXPECT_FALSE(IsValid(descriptor));
  EXPECT_EQ(Disagreement("world", 3, {0, 2}, {RequestDescriptor(), descriptor}).message(),
            "the ranks of group 'world' disagree on operation 3: rank 0 requests barrier, rank 2 "
            "requests "
            "an operation that does not exist");
}

}  // namespace
}  // namespace tessera::comm
