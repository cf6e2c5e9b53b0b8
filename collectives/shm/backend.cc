#include "collectives/shm/backend.h"

#include <string>
#include <utility>

#include "collectives/shm/group.h"
#include "core/status/status_macros.h"

namespace tessera::comm::shm {

absl::StatusOr<std::unique_ptr<Backend>> Backend::Create(int rank, int size,
                                                         const Exchange& exchange,
                                                         const BackendOptions& options) {
  std::unique_ptr<Backend> backend(new Backend(rank, size, options));
  ASSIGN_OR_RETURN(backend->memory_, SharedMemory::Create(rank, exchange, options.memory));
  ASSIGN_OR_RETURN(backend->world_members_,
                   SharedMemory::Share(Member::SegmentBytes(size), exchange, "world"));
  backend->engine_ = std::make_unique<ProgressEngine>(
      backend->memory_.get(), ProgressEngine::Options{.has_thread = size > 1});
  return backend;
}

absl::StatusOr<std::unique_ptr<Communicator>> Backend::World(absl::string_view name) {
  if (world_members_.empty()) {
    return absl::FailedPreconditionError("the group of all ranks was made before");
  }
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) ranks.push_back(rank);
  return std::make_unique<Group>(memory_.get(), engine_.get(), std::string(name), rank_, ranks,
                                 std::exchange(world_members_, {}), options_.timeout_seconds);
}

absl::StatusOr<char*> Backend::Allocate(Communicator& world, int64_t bytes) {
  return memory_->Allocate(bytes, ExchangeOver(&world));
}

absl::Status Backend::Free(Communicator& world, char* data) {
  return memory_->Free(data, ExchangeOver(&world));
}

}  // namespace tessera::comm::shm
