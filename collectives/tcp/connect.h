// How the ranks of a job come to have a connection each to each.
//
// A rank listens on a port of its own until all of its peers have come, and knows them by a secret
// that only the ranks have: others may connect, say anything or nothing, and are sent away. Nothing
// is encrypted, so that who can read or change packets of the network is not kept out.
//
// Thread safety: the function may be called from any thread.
#ifndef TESSERA_COLLECTIVES_TCP_CONNECT_H_
#define TESSERA_COLLECTIVES_TCP_CONNECT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/exchange.h"

namespace tessera::comm::tcp {

struct Peer {
  std::string host;
  std::string address;  // "10.0.0.2 port 40123", where it listened
  int64_t process = 0;
  int socket = -1;  // connected, does not block, the caller's; -1 for this rank itself
};

// Collective over the ranks. `interface` is an address of this host or the name of an interface;
// empty: loopback if all ranks are on one host, and otherwise the first interface that is up.
// Unavailable names the ranks that did not come within `timeout_seconds`.
absl::StatusOr<std::vector<Peer>> Connect(int rank, int size, const Exchange& exchange,
                                          const std::string& interface, double timeout_seconds);

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_CONNECT_H_
