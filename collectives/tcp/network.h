// Ranks on any hosts that communicate over TCP: one connection for each two of them, which all of
// their groups share.
//
// Operations move on while their rank waits for one of them, and otherwise on a thread of the
// network's own.
//
// A host that vanishes is noticed like a rank that stops: what waits for it ends at the time-out. A
// rank that dies on a host that exists is noticed at once.
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
  // All groups must have gone. Returns when the peers' systems have what was sent to them.
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  int rank() const { return connections_->rank(); }
  int size() const { return connections_->size(); }

  // The group of all ranks, once.
  absl::StatusOr<std::unique_ptr<Communicator>> World();

  // Bytes that this rank has sent to others, but for headers: the sum of the groups' traffic.
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
