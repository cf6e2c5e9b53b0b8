#include "tools/emulate/flags.h"

#include <string>
#include <vector>

#include "absl/flags/reflection.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

std::string ErrorOf(const std::vector<std::string>& arguments) {
  const absl::FlagSaver saver;
  const auto line = ParseEmulateCommandLine(arguments);
  return line.ok() ? "" : std::string(line.status().message());
}

TEST(EmulateFlags, AreReadUpToTheProgram) {
  const absl::FlagSaver saver;
  const auto line =
      ParseEmulateCommandLine({"--hosts=3", "--ranks_per_host=2", "--rate=2.5Gbit",
                               "--latency=100us", "--grace=1", "--", "program", "--rate=1"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->hosts, 3);
  EXPECT_EQ(line->ranks_per_host, 2);
  EXPECT_EQ(line->limits.bits_per_second, 2.5e9);
  EXPECT_EQ(line->limits.latency, absl::Microseconds(100));
  EXPECT_EQ(line->launch.nproc, 6);
  EXPECT_EQ(line->launch.program, "program");
  EXPECT_EQ(line->launch.arguments, std::vector<std::string>{"--rate=1"});
  EXPECT_TRUE(line->launch.only_first_rank);
}

TEST(EmulateFlags, HaveDefaults) {
  const absl::FlagSaver saver;
  const auto line = ParseEmulateCommandLine({"program"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->launch.nproc, 2);
  EXPECT_EQ(line->limits.bits_per_second, 1e9);
  EXPECT_EQ(line->limits.latency, absl::ZeroDuration());
}

TEST(EmulateFlags, ErrorsSayWhatIsRight) {
  for (const char* hosts : {"--hosts=0", "--hosts=300", "--hosts=-1"}) {
    EXPECT_EQ(ErrorOf({hosts, "program"}),
              std::string(hosts) + ": give the number of hosts, from 1 to 254, such as --hosts=2");
  }
  EXPECT_EQ(ErrorOf({"--hosts=100", "--ranks_per_host=11", "program"}),
            "--ranks_per_host=11: 100 hosts on one machine can have 1 to 10 ranks each");
  for (const char* rate : {"abc", "1", "gbit", "0mbit", "-1mbit", "nangbit", "200gbit", "1mbps"}) {
    EXPECT_EQ(ErrorOf({std::string("--rate=") + rate, "program"}),
              std::string("--rate: '") + rate +
                  "' is not a rate from 100kbit to 100gbit, such as 200mbit or 2.5gbit");
  }
  for (const char* latency : {"-1ms", "100", "11s", "inf", "fast"}) {
    EXPECT_EQ(ErrorOf({std::string("--latency=") + latency, "program"}),
              std::string("--latency: '") + latency +
                  "' is not a time from 0 to 10s, such as 100us or 1.5ms");
  }
  EXPECT_EQ(ErrorOf({"--hosts=2"}),
            "there is no program to start: name it after the flags and --, with its arguments "
            "(see --help)");
}

}  // namespace
}  // namespace tessera
