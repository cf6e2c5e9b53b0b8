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

// Addresses of the interfaces that are up, without loopback and link-local ones.
std::vector<std::string> OwnAddresses();

// An address of this host: `interface` is one in digits, or the name of an interface that is up
// (its IPv4 address if it has one). NotFound lists the interfaces. The port is 0.
absl::StatusOr<SocketAddress> AddressOfInterface(const std::string& interface);

// The own address from which the system routes packets to one of `peer_addresses`: to the first of
// them that has a route. Addresses that this host has too (of a bridge for containers, for example)
// are left out. NotFound if none has a route. The port is 0.
absl::StatusOr<SocketAddress> AddressTowards(const std::vector<std::string>& peer_addresses);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_INTERFACES_H_
