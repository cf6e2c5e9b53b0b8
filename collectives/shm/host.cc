#include "collectives/shm/host.h"

#include <string>
#include <utility>

#include "collectives/shm/group.h"
#include "core/status/status_macros.h"

namespace tessera::comm::shm {

absl::StatusOr<std::unique_ptr<Host>> Host::Create(int rank, int size, const Exchange& exchange,
                                                   const HostOptions& options) {
  std::unique_ptr<Host> host(new Host(rank, size, options));
  ASSIGN_OR_RETURN(host->memory_, SharedMemory::Create(rank, exchange, options.memory));
  ASSIGN_OR_RETURN(host->world_members_,
                   SharedMemory::Share(Member::Bytes(size), exchange, "world"));
  host->engine_ = std::make_unique<ProgressEngine>(host->memory_.get(),
                                                   ProgressEngine::Options{.has_thread = size > 1});
  return host;
}

absl::StatusOr<std::unique_ptr<Communicator>> Host::World(absl::string_view name) {
  if (world_members_.empty()) {
    return absl::FailedPreconditionError("the group of all ranks was made before");
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) ranks.push_back(rank);
  return std::make_unique<Group>(memory_.get(), engine_.get(), std::string(name), rank_, ranks,
                                 std::exchange(world_members_, {}), options_.timeout_seconds);
}

absl::StatusOr<char*> Host::Allocate(Communicator& world, int64_t bytes) {
  return memory_->Allocate(bytes, ExchangeOver(&world));
}

absl::Status Host::Free(Communicator& world, char* data) {
  return memory_->Free(data, ExchangeOver(&world));
}

}  // namespace tessera::comm::shm
