#include "collectives/net/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

namespace tessera::comm {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(InterfacesTest, AddressOfInterface) {
  EXPECT_EQ(AddressOfInterface("lo")->host(), "127.0.0.1");
  EXPECT_EQ(AddressOfInterface("192.0.2.1")->host(), "192.0.2.1");
  const auto none = AddressOfInterface("no-such-interface");
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(none.status().message(), HasSubstr("'no-such-interface' is neither"));
  EXPECT_THAT(none.status().message(), HasSubstr("lo"));
}

TEST(InterfacesTest, OwnAddressesHaveNoLoopback) {
  EXPECT_THAT(OwnAddresses(), Not(Contains("127.0.0.1")));
  for (const std::string& own : OwnAddresses()) EXPECT_TRUE(IsOfThisHost(own)) << own;
  EXPECT_TRUE(IsOfThisHost("127.0.1.1"));
  EXPECT_FALSE(IsOfThisHost("192.0.2.77"));
}

bool Ip(const std::string& arguments) {
  return std::system(
             absl::StrCat("PATH=$PATH:/sbin:/usr/sbin ip ", arguments, " 2>/dev/null").c_str()) ==
         0;
}

// Runs `body` in a network of its own with three interfaces: `first` is up and has no route,
// `bridge` has an address that every host has, and `net` leads to 10.9.0.0/24. Returns false if
// this process lacks the rights for that.
template <typename Body>
bool InNetwork(const Body& body) {
  bool is_made = false;
  std::thread thread([&] {
    is_made = unshare(CLONE_NEWNET) == 0 && Ip("link set lo up");
    for (const char* name : {"first", "bridge", "net"}) {
      is_made = is_made && Ip(absl::StrCat("link add ", name, " type veth peer name x", name)) &&
                Ip(absl::StrCat("link set ", name, " up")) &&
                Ip(absl::StrCat("link set x", name, " up"));
    }
    is_made = is_made && Ip("address add 192.0.2.1/32 dev first") &&
              Ip("address add 172.17.0.1/16 dev bridge") && Ip("address add 10.9.0.1/24 dev net");
    if (is_made) body();
  });
  thread.join();
  return is_made;
}

// Regression: the first interface that is up was chosen even if it has no route to the other host.
TEST(InterfacesTest, TheInterfaceThatHasARouteIsTaken) {
  const bool is_made = InNetwork([] {
    EXPECT_EQ(OwnAddresses().front(), "192.0.2.1");
    // The peer has a bridge with the same address as ours, and an interface that is not reachable.
    const auto address = AddressTowards({"172.17.0.1", "198.51.100.7", "10.9.0.2"});
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->host(), "10.9.0.1");
    EXPECT_EQ(address->port(), 0);
    const auto none = AddressTowards({"198.51.100.7"});
    EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(none.status().message(), HasSubstr("has a route to 198.51.100.7"));
  });
  if (!is_made) GTEST_SKIP() << "cannot make a network namespace (needs root and iproute2)";
}

}  // namespace
}  // namespace tessera::comm
