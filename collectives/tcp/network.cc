#include "collectives/tcp/network.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collectives/tcp/group.h"
#include "core/status/status_macros.h"

namespace tessera::comm::tcp {
namespace {

// The longest wait for the last messages to be acknowledged.
constexpr double kLeaveSeconds = 5;

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Create(int rank, int size,
                                                         const Exchange& exchange,
                                                         const NetworkOptions& options) {
  ASSIGN_OR_RETURN(std::vector<Peer> peers, Connect(rank, size, exchange, options));
  std::unique_ptr<Network> network(new Network(options));
  ASSIGN_OR_RETURN(network->connections_, Connections::Create(rank, std::move(peers)));
  network->engine_ = std::make_unique<ProgressEngine>(
      network->connections_.get(), ProgressEngine::Options{.has_thread = size > 1});
  return network;
}

Network::~Network() {
  if (engine_ == nullptr) return;
  engine_->Stop();
  connections_->Leave(std::min(kLeaveSeconds, options_.timeout_seconds));
}

absl::StatusOr<std::unique_ptr<Communicator>> Network::World() {
  if (world_was_made_) {
    return absl::FailedPreconditionError("the group of all ranks was made before");
  }
  world_was_made_ = true;
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) ranks.push_back(r);
  return std::make_unique<Group>(connections_.get(), engine_.get(), "world", rank(), ranks, 0,
                                 options_.timeout_seconds);
}

int64_t Network::BytesWritten() {
  const MutexLock lock(&engine_->mutex());
  return connections_->BytesWritten();
}

}  // namespace tessera::comm::tcp
