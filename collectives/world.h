// The ranks of a job, and the communicator among all of them.
//
// Thread safety: one thread at a time; what holds of a Communicator is said there.
#ifndef TESSERA_COLLECTIVES_WORLD_H_
#define TESSERA_COLLECTIVES_WORLD_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/nccl/device.h"
#include "collectives/rendezvous/environment.h"
#include "collectives/rendezvous/rendezvous.h"
#include "collectives/shm/host.h"
#include "collectives/tcp/network.h"

namespace tessera::comm {

struct WorldOptions {
  std::string rendezvous = "";  // HOST:PORT of rank 0, where no launcher names it
  // "shm", "tcp" or "hierarchical": empty, as suits where the ranks are. "nccl": buffers are memory
  // of GPUs, of which rank r of a host has that with number r.
  std::string backend = "";
  std::string interface = "";  // of tcp: NetworkOptions::interface
  // The host of each rank, by any name, as if it were so. Empty: as it is.
  std::vector<std::string> hosts = {};
  double timeout_seconds = 60;  // the longest wait for another rank
  // For tests: RANK:N:fail or RANK:N:SECONDS, what a rank does at the N-th operation, counted from
  // 1, of the communicator of all ranks: it gives up, or it comes so much later.
  std::string fault = "";
};

class World {
 public:
  // Collective over the job that the environment describes (rendezvous/environment.h); a process
  // that nobody launched is a job of one rank. Errors name the ranks that did not come.
  static absl::StatusOr<std::unique_ptr<World>> Connect(const WorldOptions& options);
  // Without Leave, this rank is lost to the others.
  ~World() = default;

  int rank() const { return environment_.rank; }
  int size() const { return environment_.size; }
  const RankEnvironment& environment() const { return environment_; }
  const std::string& backend() const { return backend_; }

  // All ranks. Its groups are made by Split.
  Communicator& communicator() { return device_world_ != nullptr ? *device_world_ : *cpu_world_; }

  // The same ranks, for buffers in memory of the CPU, whatever the backend.
  Communicator& cpu_communicator() { return *cpu_world_; }

  // Memory in which operations read and write in place where the backend can; zeros, aligned to 64
  // bytes, until the World goes. Collective.
  absl::StatusOr<char*> Allocate(int64_t bytes);
  // Copies between such memory and the CPU's, or within it.
  absl::Status Copy(void* to, const void* from, int64_t bytes);

  // What this rank has sent over the network, but for headers.
  int64_t NetworkBytes() { return network_ == nullptr ? 0 : network_->BytesWritten(); }

  // The last call: this rank is done, or cannot go on because of an error, which the others are
  // told.
  absl::Status Leave(const absl::Status& why = absl::OkStatus());

 private:
  World() = default;
  // Where the ranks are, equal numbers on equal hosts.
  absl::StatusOr<std::vector<int>> FindHosts(const WorldOptions& options) const;
  absl::Status Communicate(const WorldOptions& options);
  // By way of the store, among some of the ranks.
  Exchange ExchangeAmong(std::string name, std::vector<int> ranks) const;

  std::chrono::milliseconds timeout_{};
  RankEnvironment environment_;
  std::string backend_;
  std::unique_ptr<Rendezvous> rendezvous_;
  std::unique_ptr<shm::Host> host_;                               // not of the backend tcp
  std::unique_ptr<tcp::Network> network_;                         // not of the backend shm
  std::vector<std::unique_ptr<char[], void (*)(void*)>> memory_;  // where no backend has any
  std::unique_ptr<Communicator> neighbours_;  // for Allocate, where they are not all
  std::unique_ptr<Communicator> cpu_world_;
  std::unique_ptr<nccl::Device> device_;  // of the backend nccl
  std::unique_ptr<Communicator> device_world_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_WORLD_H_
