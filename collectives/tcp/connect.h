// Connects a rank with all other ranks of its job: one connection for each pair of ranks.
//
// A rank listens on a port of its own until all of its peers are connected. Both ends of a
// connection prove that they know the job's secret (collectives/net/handshake.h); connections that
// do not are dropped. Nothing is encrypted: an attacker who can read packets of the network can
// read all data. Changes to those bytes that NetworkOptions::integrity covers are noticed.
//
// Thread safety: the function may be called from any thread.
#ifndef TESSERA_COLLECTIVES_TCP_CONNECT_H_
#define TESSERA_COLLECTIVES_TCP_CONNECT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/exchange.h"
#include "collectives/net/integrity.h"
#include "collectives/tcp/connection.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm::tcp {

struct Peer {
  std::string host;
  std::string address;  // "10.0.0.2 port 40123", its listening address
  int64_t process = 0;
  FileDescriptor socket;             // connected and non-blocking; closed for this rank itself
  ConnectionSecurity security = {};  // of the connection
};

struct NetworkOptions {
  // The longest that ranks wait for each other: to connect, and in an operation that makes no
  // progress.
  double timeout_seconds = 60;
  // The address of this host, or the name of its interface, at which peers reach it. Empty:
  // loopback if all ranks are on one host, and otherwise the interface that has a route to the
  // first rank on another host.
  std::string interface = "";
  std::string secret = "";  // of the job; never sent: both ends prove that they know it
  // The same on all ranks, or all get an error. nullopt: kControl between hosts, and kNone between
  // ranks of one host, whose bytes do not leave its kernel.
  std::optional<Integrity> integrity = std::nullopt;
};

// Connects this rank with all others and returns the peers, by rank. Collective over the ranks.
// Unavailable names the ranks that did not connect in time.
absl::StatusOr<std::vector<Peer>> Connect(int rank, int size, const Exchange& exchange,
                                          const NetworkOptions& options);

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_CONNECT_H_
