// The network interfaces of this host.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_NET_INTERFACES_H_
#define TESSERA_COLLECTIVES_NET_INTERFACES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/net/socket_address.h"

namespace tessera::comm {

// Returns the addresses of the interfaces that are up, except loopback and link-local ones.
std::vector<std::string> OwnAddresses();

// Returns whether an address in digits is one of OwnAddresses, or loopback.
bool IsOfThisHost(const std::string& address);

// Returns an address of this host. `interface` is an address in digits or the name of an interface
// that is up; an IPv4 address is preferred. NotFound lists the interfaces. The port is 0.
absl::StatusOr<SocketAddress> AddressOfInterface(const std::string& interface);

// Returns this host's address from which the system routes packets to the first of `peer_addresses`
// that has a route. Ignores addresses that this host has too (of a bridge for containers, for
// example). NotFound if none has a route. The port is 0.
absl::StatusOr<SocketAddress> AddressTowards(const std::vector<std::string>& peer_addresses);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_INTERFACES_H_
