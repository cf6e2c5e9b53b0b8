// Checks the ranges of our strategies' options.
#include <string>

#include "gtest/gtest.h"
#include "strategies/host/option_values.h"
#include "strategies/host/plugin.h"

namespace tessera {
namespace {

// Regression: prefetch=4294967298 was 2, and unit_mb=-1 was ignored.
TEST(OptionRangesTest, NumbersOutOfRangeAreRefused) {
  const auto error = [](const std::string& strategy, const std::string& setting) {
    const auto plugin = Plugin::Load("strategies/" + strategy + "/" + strategy + ".so");
    EXPECT_TRUE(plugin.ok()) << plugin.status();
    return std::string(ReadOptions(*plugin, {setting}).status().message());
  };
  EXPECT_EQ(error("fsdp", "prefetch=4294967298"),
            "option prefetch is '4294967298', and has to be a whole number from 0 to 2147483647");
  EXPECT_EQ(error("fsdp", "prefetch=2147483648"),
            "option prefetch is '2147483648', and has to be a whole number from 0 to 2147483647");
  EXPECT_EQ(error("fsdp", "prefetch=2147483647"), "");
  EXPECT_EQ(error("fsdp", "in_flight=-1"),
            "option in_flight is '-1', and has to be a whole number from 0 to 2147483647");
  EXPECT_EQ(error("fsdp", "replicas=0"),
            "option replicas is '0', and has to be a whole number from 1 to 2147483647");
  EXPECT_EQ(error("fsdp", "unit_mb=-1"),
            "option unit_mb is '-1', and has to be a number from 0 to 1000000000");
  EXPECT_EQ(error("fsdp", "unit_mb=1e300"),
            "option unit_mb is '1e300', and has to be a number from 0 to 1000000000");
  EXPECT_EQ(error("ddp", "bucket_mb=-0.001"),
            "option bucket_mb is '-0.001', and has to be a number from 0 to 1000000000");
  EXPECT_EQ(error("ddp", "first_bucket_mb=1e10"),
            "option first_bucket_mb is '1e10', and has to be a number from 0 to 1000000000");
}

}  // namespace
}  // namespace tessera
