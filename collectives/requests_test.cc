#include "collectives/requests.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "gmock/gmock.h"
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

// Regression: the bound was the same for all groups, and the bytes that 16 ranks send overflowed.
TEST(CheckRequestTest, TheBytesSentToAllRanksAreANumber) {
  char byte = 0;
  Request request = {
      .operation = Operation::kAllReduce, .dtype = DType::kF64, .input = &byte, .output = &byte};
  for (const int ranks : {1, 2, 16, 1024}) {
    request.count = INT64_MAX / 8 / ranks;
    EXPECT_TRUE(CheckRequest(request, 0, ranks).ok()) << ranks;
    ++request.count;
    EXPECT_THAT(std::string(CheckRequest(request, 0, ranks).message()),
                testing::HasSubstr("the buffer is too large"))
        << ranks;
  }
}

// A peer may send arbitrary bytes.
TEST(RequestDescriptorTest, InvalidBytesAreReportedAsSuch) {
  RequestDescriptor descriptor;
  std::memset(static_cast<void*>(&descriptor), 0xff, sizeof(descriptor));
  EXPECT_FALSE(IsValid(descriptor));
  EXPECT_EQ(CompareRequests("world", 3, {RequestDescriptor(), descriptor}, {0, 2}).message(),
            "the ranks of group 'world' disagree on operation 3: rank 0 requests barrier, rank 2 "
            "requests "
            "an operation that does not exist");
}

}  // namespace
}  // namespace tessera::comm
