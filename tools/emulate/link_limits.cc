#include "tools/emulate/link_limits.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

constexpr char kSwitch[] = "switch";
constexpr int64_t kPacketBytes = 1514;  // of an MTU of 1500, with Ethernet's header

std::string Port(int host) { return absl::StrCat("host", host); }

// A host sends to its queue what its connections have in flight, a few packets of 64 KiB each, of
// which a host of its own would drop none. A switch drops what several hosts send to one at once.
constexpr int64_t kHostQueueBytes = 8 << 20;
constexpr int64_t kSwitchQueueBytes = 256 << 10;

// Returns the bytes that pass in a millisecond, or some packets. A bucket holds as much: timers of
// a busy machine may be late by that time; a larger one would let the messages of a slow link pass
// at once.
int64_t BurstBytes(const LinkLimits& limits) {
  return std::max<int64_t>(std::llround(limits.bits_per_second / 8 * 1e-3), 8 * kPacketBytes);
}

// The parameters of tbf, a token bucket, with a queue for 50 ms of data, and `queue_bytes` at
// least.
std::string BucketParameters(const LinkLimits& limits, int64_t queue_bytes) {
  const double bytes_per_second = limits.bits_per_second / 8;
  const int64_t burst = BurstBytes(limits);
  const int64_t queue = std::max<int64_t>(std::llround(bytes_per_second * 50e-3), queue_bytes);
  return absl::StrCat("tbf rate ", std::llround(limits.bits_per_second), "bit burst ", burst,
                      " limit ", burst + queue);
}

// The parameters of netem, which must hold all packets that are under way.
std::string DelayParameters(const LinkLimits& limits) {
  constexpr int64_t kQueuedPackets = 1000;  // netem's default
  constexpr int64_t kSmallPacketBytes = 256;
  const double bytes = limits.bits_per_second / 8 * absl::ToDoubleSeconds(limits.latency);
  const int64_t packets = std::llround(std::ceil(bytes / kSmallPacketBytes));
  return absl::StrCat("netem delay ", absl::ToInt64Microseconds(limits.latency), "us limit ",
                      kQueuedPackets + packets);
}

}  // namespace

std::string HostAddress(int host) { return absl::StrCat("10.77.0.", host + 1); }

std::string SwitchCommands() {
  return absl::StrCat("link add ", kSwitch, " type bridge\nlink set ", kSwitch, " up\n");
}

std::string PortCommands(int host, absl::string_view host_namespace) {
  const std::string port = Port(host);
  return absl::StrCat("link add ", port, " type veth peer name ", kHostInterface, " netns ",
                      host_namespace, "\nlink set ", port, " master ", kSwitch, " up\n");
}

// TCP makes packets of up to 64 KiB for the interface. A bucket would split those that it cannot
// hold, and wait for each part: at 200 Mbit/s the timers took half of the time of both cores.
std::string HostCommands(int host, const LinkLimits& limits) {
  constexpr int64_t kLargestPacket = 65536;
  return absl::StrCat("link set lo up\naddress add ", HostAddress(host), "/24 dev ", kHostInterface,
                      "\nlink set ", kHostInterface, " up gso_max_size ",
                      std::min(BurstBytes(limits) / 2, kLargestPacket), "\n");
}

// A packet is sent bit by bit by its host, is under way, and is then sent by the switch. So the
// delay comes before the bucket of the switch.
std::string PortLimitCommands(int host, const LinkLimits& limits) {
  const std::string add = absl::StrCat("qdisc add dev ", Port(host), " ");
  if (limits.latency == absl::ZeroDuration()) {
    return absl::StrCat(add, "root ", BucketParameters(limits, kSwitchQueueBytes), "\n");
  }
  return absl::StrCat(add, "root handle 1: ", DelayParameters(limits), "\n", add,
                      "parent 1:1 handle 2: ", BucketParameters(limits, kSwitchQueueBytes), "\n");
}

std::string HostLimitCommands(const LinkLimits& limits) {
  return absl::StrCat("qdisc add dev ", kHostInterface, " root ",
                      BucketParameters(limits, kHostQueueBytes), "\n");
}

}  // namespace tessera
