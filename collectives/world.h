// A rank among those of its job: its communicators, and memory for them. Ranks are the processes of
// a job (connected_world.h), or threads of one process (fake/fake.h); a program that uses this
// interface runs on both.
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
  virtual ~World() = default;  // without Leave, this rank is lost to the others

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "shm", "tcp", "hierarchical", "nccl"
  virtual const std::string& backend() const = 0;

  // All ranks, for buffers in memory that Allocate returns. Groups are made by Split.
  virtual Communicator& communicator() = 0;
  // The same ranks, for buffers in memory of the CPU, whatever the backend.
  virtual Communicator& cpu_communicator() = 0;

  // Memory in which operations read and write in place if the backend can; zeros, aligned to 64
  // bytes, until Free or the end of the World. Collective; each rank passes the size that it needs.
  // ResourceExhausted on all ranks if one of them lacks memory.
  virtual absl::StatusOr<char*> Allocate(int64_t bytes) = 0;
  // Collective: each rank passes its pointer of the same call of Allocate. No operation may be in
  // flight on it.
  virtual absl::Status Free(char* data) = 0;
  // Copies between such memory and the CPU's, or within it.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) = 0;

  // Bytes that this rank has sent over the network, but for headers.
  virtual int64_t NetworkBytes() { return 0; }

  // The last call: this rank is done, or cannot go on because of an error, which the others learn.
  virtual absl::Status Leave(const absl::Status& why) = 0;
  absl::Status Leave() { return Leave(absl::OkStatus()); }
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_WORLD_H_
