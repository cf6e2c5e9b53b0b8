// Ranks on any hosts that communicate over TCP. There is one connection for each pair of ranks,
// which all of their groups share.
//
// A thread that waits for an operation advances all operations; if no thread waits, a thread of the
// network's own advances them.
//
// A host that vanishes is treated like a rank that stops: operations that wait for it end at the
// time-out. A rank that dies on a running host is noticed at once.
//
// Thread safety: as Communicator; the making of groups comes from one thread at a time.
#ifndef TESSERA_COLLECTIVES_TCP_NETWORK_H_
#define TESSERA_COLLECTIVES_TCP_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/queue/progress_engine.h"
#include "collectives/tcp/connect.h"
#include "collectives/tcp/connections.h"

namespace tessera::comm::tcp {

class Network {
 public:
  // Collective over all ranks. `exchange` is not used afterwards. Unavailable on all ranks if not
  // all of them could connect.
  static absl::StatusOr<std::unique_ptr<Network>> Create(int rank, int size,
                                                         const Exchange& exchange,
                                                         const NetworkOptions& options);
  // All groups must have been destroyed. Returns when the peers' systems have acknowledged
  // everything.
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  int rank() const { return connections_->rank(); }
  int size() const { return connections_->size(); }

  // Returns the group of all ranks. May be called once.
  absl::StatusOr<std::unique_ptr<Communicator>> World();

  // Returns the bytes that this rank has sent to others, without headers: the sum of the groups'
  // traffic.
  int64_t BytesWritten();

 private:
  explicit Network(const NetworkOptions& options) : options_(options) {}

  const NetworkOptions options_;
  bool world_was_made_ = false;
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<ProgressEngine> engine_;
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_NETWORK_H_
