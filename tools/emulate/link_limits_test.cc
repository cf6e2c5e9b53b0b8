#include "tools/emulate/link_limits.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

TEST(LinkLimits, JoinHostsByASwitch) {
  EXPECT_EQ(SwitchCommands(), "link add switch type bridge\nlink set switch up\n");
  EXPECT_EQ(PortCommands(1, "/proc/12/fd/3"),
            "link add host1 type veth peer name link0 netns /proc/12/fd/3\n"
            "link set host1 master switch up\n");
  EXPECT_EQ(HostCommands(1, {200e6, {}}),
            "link set lo up\naddress add 10.77.0.2/24 dev link0\n"
            "link set link0 up gso_max_size 12500\n");
  EXPECT_EQ(HostAddress(253), "10.77.0.254");
}

TEST(LinkLimits, LimitBothDirections) {
  const LinkLimits limits = {1e9, absl::ZeroDuration()};
  EXPECT_EQ(HostLimitCommands(limits),
            "qdisc add dev link0 root tbf rate 1000000000bit burst 125000 limit 8513608\n");
  EXPECT_EQ(PortLimitCommands(1, limits),
            "qdisc add dev host1 root tbf rate 1000000000bit burst 125000 limit 6375000\n");
}

TEST(LinkLimits, DelayPacketsOnceOnTheirWay) {
  const LinkLimits limits = {200e6, absl::Microseconds(1500)};
  EXPECT_EQ(HostLimitCommands(limits),
            "qdisc add dev link0 root tbf rate 200000000bit burst 25000 limit 8413608\n");
  // 1.5 ms of data are 147 packets of 256 bytes.
  EXPECT_EQ(PortLimitCommands(0, limits),
            "qdisc add dev host0 root handle 1: netem delay 1500us limit 1147\n"
            "qdisc add dev host0 parent 1:1 handle 2: tbf rate 200000000bit burst 25000 limit "
            "1275000\n");
}

TEST(LinkLimits, HoldPacketsAtEveryRate) {
  EXPECT_EQ(PortLimitCommands(0, {10e6, {}}),
            "qdisc add dev host0 root tbf rate 10000000bit burst 12112 limit 274256\n");
  EXPECT_EQ(HostLimitCommands({100e9, {}}),
            "qdisc add dev link0 root tbf rate 100000000000bit burst 12500000 limit 637500000\n");
}

}  // namespace
}  // namespace tessera
