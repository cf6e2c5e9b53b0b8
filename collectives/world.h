// The interface of a rank to its job: communicators, and memory for their buffers. Ranks are the
// processes of a job (connected_world.h), or threads of one process (fake/fake.h); a program that
// uses this interface runs on both.
//
// Thread safety: one thread at a time, apart from the communicators (communicator.h).
#ifndef TESSERA_COLLECTIVES_WORLD_H_
#define TESSERA_COLLECTIVES_WORLD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace tessera::comm {

class World {
 public:
  virtual ~World() = default;  // without Leave, the others see this rank as lost

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "shm", "tcp", "hierarchical", "nccl"
  virtual const std::string& backend() const = 0;

  // Returns the communicator of all ranks for buffers in memory of Allocate. Split makes groups.
  virtual Communicator& communicator() = 0;
  // Returns the communicator of the same ranks for buffers in CPU memory, whatever the backend.
  virtual Communicator& cpu_communicator() = 0;

  // Allocates memory that operations access in place if the backend can: zeros, aligned to 64
  // bytes, valid until Free or the end of the World. Collective; each rank passes the size that it
  // needs. ResourceExhausted on all ranks if one of them lacks memory.
  virtual absl::StatusOr<char*> Allocate(int64_t bytes) = 0;
  // Collective: each rank passes its pointer from the same call of Allocate. No operation in flight
  // may use it.
  virtual absl::Status Free(char* data) = 0;
  // Copies between memory of Allocate and CPU memory, or within either.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) = 0;

  // Returns the bytes that this rank has sent over the network, without headers.
  virtual int64_t NetworkBytes() { return 0; }

  // Must be the last call: with OK if this rank is done, otherwise with an error, which is reported
  // to the others.
  virtual absl::Status Leave(const absl::Status& why) = 0;
  absl::Status Leave() { return Leave(absl::OkStatus()); }
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_WORLD_H_
