#include "core/train/checkpoint/checksum.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(ChecksumTest, IsWhatXxhsumPrints) {
  EXPECT_EQ(ChecksumOf({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(ChecksumOf(std::string("tessera")), "157800c744fd9a1904c1a9b49517cd58");
}

TEST(ChecksumTest, DoesNotDependOnThePieces) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 7);
  Checksum checksum;
  const absl::Span<const char> span(bytes);
  for (size_t at = 0, size = 0; at < bytes.size(); at += size, ++size) {
    checksum.Update(span.subspan(at, size));
  }
  EXPECT_EQ(checksum.Hex(), ChecksumOf(bytes));
}

}  // namespace
}  // namespace tessera
