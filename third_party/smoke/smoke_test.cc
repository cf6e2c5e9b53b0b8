// Touches each library that everything else stands on, so that a machine on which one of them does
// not compile, link or run is found out here and not in the middle of something else.

#include "absl/container/flat_hash_map.h"
#include "absl/random/random.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "third_party/smoke/smoke.pb.h"

namespace tessera {
namespace {

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return absl::InvalidArgumentError(absl::StrCat(n, " is odd"));
  return n / 2;
}

TEST(SmokeTest, AbseilWorks) {
  EXPECT_EQ(*Half(4), 2);
  EXPECT_EQ(Half(3).status().message(), "3 is odd");
  absl::flat_hash_map<std::string, int> map = {{absl::StrFormat("%05.1f", 1.25), 1}};
  EXPECT_THAT(map, testing::UnorderedElementsAre(testing::Pair("001.2", 1)));
  absl::BitGen gen;
  EXPECT_LT(absl::Uniform(gen, 0, 10), 10);
  EXPECT_GT(absl::Now(), absl::UnixEpoch());
}

TEST(SmokeTest, ProtobufWorks) {
  third_party::Smoke inner;
  inner.set_text("inner");
  third_party::Smoke outer;
  outer.mutable_any()->PackFrom(inner);
  third_party::Smoke read;
  ASSERT_TRUE(read.ParseFromString(outer.SerializeAsString()));
  ASSERT_TRUE(read.any().UnpackTo(&inner));
  EXPECT_EQ(inner.ShortDebugString(), "text: \"inner\"");
}

}  // namespace
}  // namespace tessera
