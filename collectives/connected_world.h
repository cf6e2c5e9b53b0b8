// The ranks of a job whose ranks are processes, and the communicator of all of them.
//
// Thread safety: as World.
#ifndef TESSERA_COLLECTIVES_CONNECTED_WORLD_H_
#define TESSERA_COLLECTIVES_CONNECTED_WORLD_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/nccl/device.h"
#include "collectives/net/integrity.h"
#include "collectives/rendezvous/environment.h"
#include "collectives/rendezvous/rendezvous.h"
#include "collectives/shm/backend.h"
#include "collectives/tcp/network.h"
#include "collectives/world.h"

namespace tessera::comm {

struct WorldOptions {
  std::string rendezvous = "";  // HOST:PORT of rank 0, if no launcher sets it
  // "shm", "tcp", "hierarchical" or "nccl". Empty: one of the first three, chosen by the hosts of
  // the ranks. With "nccl" buffers are GPU memory, and local rank r uses GPU r of its host.
  std::string backend = "";
  // The address or interface of this rank's host, for tcp (NetworkOptions::interface) and, on rank
  // 0, for the rendezvous.
  std::string interface = "";
  std::optional<Integrity> integrity = std::nullopt;  // for tcp: NetworkOptions::integrity
  // Overrides the host of each rank, by any name. Empty: the real hosts.
  std::vector<std::string> hosts = {};
  double timeout_seconds = 60;  // the longest wait for another rank
  // For tests: RANK:N:fail or RANK:N:SECONDS. At the N-th operation, counted from 1, of the
  // communicator of all ranks, the rank aborts, or issues it SECONDS later.
  std::string fault = "";
};

class ConnectedWorld : public World {
 public:
  // Collective over the job that the environment describes (rendezvous/environment.h); a process
  // that no launcher started is a job of one rank. Errors name the missing ranks.
  static absl::StatusOr<std::unique_ptr<ConnectedWorld>> Connect(const WorldOptions& options);

  const RankEnvironment& environment() const { return environment_; }

  int rank() const override { return environment_.rank; }
  int size() const override { return environment_.size; }
  const std::string& backend() const override { return backend_; }
  Communicator& communicator() override {
    return device_world_ != nullptr ? *device_world_ : *cpu_world_;
  }
  Communicator& cpu_communicator() override { return *cpu_world_; }
  absl::StatusOr<char*> Allocate(int64_t bytes) override;
  absl::Status Free(char* data) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
  int64_t NetworkBytes() override { return network_ == nullptr ? 0 : network_->BytesWritten(); }
  absl::Status Leave(const absl::Status& why) override;
  using World::Leave;

 private:
  ConnectedWorld() = default;
  // Returns a host number for each rank; ranks of the same host have the same number.
  absl::StatusOr<std::vector<int>> FindHosts(const WorldOptions& options) const;
  // Connects this rank with the others by the backend of the options, and makes the communicators
  // of all ranks. Collective.
  absl::Status MakeCommunicators(const WorldOptions& options);
  // Returns an exchange among `ranks`, through the store.
  Exchange ExchangeAmong(std::string name, std::vector<int> ranks) const;
  // Allocates memory of this process, for the backends that do not reach memory of peers.
  absl::StatusOr<char*> AllocatePrivate(int64_t bytes);
  // Frees memory of Allocate. Collective among the ranks of the host.
  absl::Status FreeOnHost(char* data);

  std::chrono::milliseconds timeout_{};
  RankEnvironment environment_;
  std::string backend_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<shm::Backend> shm_;                             // null for the backend tcp
  std::unique_ptr<tcp::Network> network_;                         // null for the backend shm
  std::vector<std::unique_ptr<char[], void (*)(void*)>> memory_;  // if no backend allocates any
  std::unique_ptr<Communicator> host_ranks_;  // the ranks of this host; null unless hierarchical
  std::unique_ptr<Communicator> cpu_world_;
  std::unique_ptr<nccl::Device> device_;  // of the backend nccl
  std::unique_ptr<Communicator> device_world_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_CONNECTED_WORLD_H_
