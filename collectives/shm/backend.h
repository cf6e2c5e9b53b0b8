// The shared-memory backend: a rank's connection to the other ranks of its host.
//
// Peers access buffers in memory of Allocate in place: they read them and reduce into them. Other
// buffers are copied through a staging area; Traffic counts those bytes.
//
// A thread that waits for an operation advances all operations; if no thread waits, a thread of the
// backend's own advances them. Waiting spins for a moment and then sleeps.
//
// Thread safety: as Communicator; Allocate, Free and the making of groups come from one thread at a
// time.
#ifndef TESSERA_COLLECTIVES_SHM_BACKEND_H_
#define TESSERA_COLLECTIVES_SHM_BACKEND_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/queue/progress_engine.h"
#include "collectives/shm/shared_memory.h"

namespace tessera::comm::shm {

struct BackendOptions {
  double timeout_seconds = 60;  // the longest wait of an operation for a peer
  SharedMemoryOptions memory = {};
};

class Backend {
 public:
  // Collective over the ranks of the host; `rank` is this one's number among them. Also makes the
  // memory of the group that World returns, because `exchange` is not used afterwards.
  static absl::StatusOr<std::unique_ptr<Backend>> Create(int rank, int size,
                                                         const Exchange& exchange,
                                                         const BackendOptions& options);
  ~Backend() = default;  // all groups must have been destroyed
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  // Returns the group of all ranks. May be called once.
  absl::StatusOr<std::unique_ptr<Communicator>> World(absl::string_view name = "world");

  // Allocates memory of this rank that its peers can access: zeros, aligned to 64 bytes, valid
  // until Free or the end of the Backend. Collective; each rank passes the size that it needs.
  // ResourceExhausted on all ranks if one of them lacks memory.
  absl::StatusOr<char*> Allocate(Communicator& world, int64_t bytes);
  // Collective: each rank passes its pointer from the same call of Allocate. No operation in flight
  // may use it.
  absl::Status Free(Communicator& world, char* data);

 private:
  Backend(int rank, int size, const BackendOptions& options)
      : rank_(rank), size_(size), options_(options) {}

  const int rank_, size_;
  const BackendOptions options_;
  std::unique_ptr<SharedMemory> memory_;
  SharedMemory::Segments world_members_;  // until World takes them
  std::unique_ptr<ProgressEngine> engine_;
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_BACKEND_H_
