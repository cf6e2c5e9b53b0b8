// The links of emulated hosts, as commands of ip(8) and tc(8). Every host has an interface
// kHostInterface, which a pair of veth joins with a port of a bridge, the switch, in a namespace of
// its own.
#ifndef TESSERA_TOOLS_EMULATE_LINK_LIMITS_H_
#define TESSERA_TOOLS_EMULATE_LINK_LIMITS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tessera {

inline constexpr char kHostInterface[] = "link0";

struct LinkLimits {
  double bits_per_second = 1e9;                   // in each direction
  absl::Duration latency = absl::ZeroDuration();  // from one host to another
};

// Returns the address of a host. `host` is from 0 to 253.
std::string HostAddress(int host);

// Return lines for `ip -batch` in the switch's namespace: the bridge; a host's link and its port.
// `host_namespace` is the path of the host's namespace.
std::string SwitchCommands();
std::string PortCommands(int host, absl::string_view host_namespace);
// Returns lines for `ip -batch` in a host's namespace, after PortCommands.
std::string HostCommands(int host, const LinkLimits& limits);

// Return lines for `tc -batch` in the switch's namespace, for what a host receives; and in the
// host's namespace, for what it sends.
std::string PortLimitCommands(int host, const LinkLimits& limits);
std::string HostLimitCommands(const LinkLimits& limits);

}  // namespace tessera

#endif  // TESSERA_TOOLS_EMULATE_LINK_LIMITS_H_
