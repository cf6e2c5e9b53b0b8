// Checks the ranges of our strategies' options.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plugin.h"

namespace tessera {
namespace {

using ::testing::EndsWith;

std::string Error(const std::string& strategy, const std::string& setting) {
  const auto plugin = Plugin::Load("strategies/" + strategy + "/" + strategy + ".so");
  EXPECT_TRUE(plugin.ok()) << plugin.status();
  return std::string(ReadOptions(*plugin, {setting}).status().message());
}

// Regression: prefetch=4294967298 was 2, and a unit of -1 MiB was ignored.
TEST(OptionRangesTest, NumbersOutOfRangeAreRefused) {
  EXPECT_EQ(Error("fsdp", "prefetch=4294967298"),
            "option prefetch is '4294967298', and has to be a whole number from 0 to 2147483647");
  EXPECT_EQ(Error("fsdp", "prefetch=2147483648"),
            "option prefetch is '2147483648', and has to be a whole number from 0 to 2147483647");
  EXPECT_EQ(Error("fsdp", "prefetch=2147483647"), "");
  EXPECT_EQ(Error("fsdp", "in_flight=-1"),
            "option in_flight is '-1', and has to be a whole number from 0 to 2147483647");
  EXPECT_EQ(Error("fsdp", "replicas=0"),
            "option replicas is '0', and has to be a whole number from 1 to 2147483647");
  EXPECT_EQ(Error("fsdp", "unit=-1"), "option unit is '-1', and has to be a size such as 25MiB");
  EXPECT_EQ(Error("fsdp", "unit=1e300"),
            "option unit is '1e300', and has to be a size such as 25MiB");
  EXPECT_EQ(Error("ddp", "bucket=4194304TiB"),
            "option bucket is '4194304TiB', and has to be a size such as 25MiB");
}

TEST(OptionRangesTest, FormerNamesLeadToThePresentOnes) {
  EXPECT_THAT(Error("ddp", "bucket_mb=25"), EndsWith("did you mean 'bucket'?"));
  EXPECT_THAT(Error("ddp", "first_bucket_mb=1"), EndsWith("did you mean 'first_bucket'?"));
  EXPECT_THAT(Error("fsdp", "unit_mb=100"), EndsWith("did you mean 'unit'?"));
}

}  // namespace
}  // namespace tessera
