#include "core/text/human_units.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera {
namespace {

TEST(HumanUnitsTest, Bytes) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1000), "1000 B");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(1023 * 1024 + 1000), "1.00 MiB");
  EXPECT_EQ(FormatBytes(1320702444), "1.23 GiB");
  EXPECT_EQ(FormatBytes(int64_t{15} << 20), "15.0 MiB");
  EXPECT_EQ(FormatBytes(int64_t{700} << 40), "700 TiB");
}

TEST(HumanUnitsTest, BytesAreRead) {
  EXPECT_EQ(*ParseBytes("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(*ParseBytes(" 1.5 mib "), 1572864);
  EXPECT_EQ(*ParseBytes("200MB"), 200000000);
  EXPECT_EQ(*ParseBytes("4096"), 4096);
  EXPECT_EQ(*ParseBytes("128M"), int64_t{128} << 20);
  EXPECT_EQ(*ParseBytes("4k"), 4096);
  EXPECT_EQ(*ParseBytes("8B"), 8);
  for (const char* text :
       {"", "GiB", "2 X", "-1", "1e9", "1..2KB", "99999999999TiB", "2GiB more"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(HumanUnitsTest, Seconds) {
  EXPECT_EQ(FormatSeconds(0.00789), "7.89 ms");
  EXPECT_EQ(FormatSeconds(0.9996), "1.00 s");
  EXPECT_EQ(FormatSeconds(4.56), "4.56 s");
  EXPECT_EQ(FormatSeconds(59.96), "1m 00s");
  EXPECT_EQ(FormatSeconds(83), "1m 23s");
  EXPECT_EQ(FormatSeconds(3599.6), "1h 00m");
  EXPECT_EQ(FormatSeconds(3720), "1h 02m");
  EXPECT_EQ(FormatSeconds(90000), "1d 01h");
  EXPECT_EQ(FormatSeconds(NAN), "?");
}

TEST(HumanUnitsTest, Counts) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(123), "123");
  EXPECT_EQ(FormatCount(4567), "4.57K");
  EXPECT_EQ(FormatCount(999600), "1.00M");
  EXPECT_EQ(FormatCount(124439808), "124M");
  EXPECT_EQ(FormatCount(8.01e9), "8.01B");
  EXPECT_EQ(FormatCount(12, "FLOP"), "12 FLOP");
  EXPECT_EQ(FormatCount(11.1e9, "FLOP/s"), "11.1 GFLOP/s");
}

}  // namespace
}  // namespace tessera
