// The memory that the ranks of a host share: segments that all of them map, in which buffers are
// allocated, and by which ranks wake each other.
//
// Thread safety: functions may be called from any thread, unless they are said to be collective;
// those come from one thread at a time.
#ifndef TESSERA_COLLECTIVES_SHM_SHARED_MEMORY_H_
#define TESSERA_COLLECTIVES_SHM_SHARED_MEMORY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/queue/progress_engine.h"
#include "collectives/shm/segment.h"
#include "core/sync/mutex.h"

namespace tessera::comm::shm {

struct SharedMemoryOptions {
  // Each buffer ends at most 63 bytes (for alignment) before an inaccessible page.
  bool guarded = false;
  // job_ranks[r] is the rank in the job of the host's rank r, for messages. Empty: they are equal.
  std::vector<int> job_ranks = {};
};

// It is the event source of the backend's engine: a rank sleeps on its doorbell.
class SharedMemory : public EventSource {
 public:
  using Segments = std::vector<std::shared_ptr<const Segment>>;  // by rank of the host

  // Collective over the ranks of the host.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Create(int rank, const Exchange& exchange,
                                                              SharedMemoryOptions options);

  // Creates a segment of `bytes` on each rank, and maps those of all ranks. Collective over the
  // exchange's ranks: ResourceExhausted on all of them if one lacks memory.
  static absl::StatusOr<Segments> Share(int64_t bytes, const Exchange& exchange,
                                        absl::string_view key);

  // Allocates a buffer of this rank that its peers can access: zeros, aligned to 64 bytes.
  // Collective over the ranks of the host.
  absl::StatusOr<char*> Allocate(int64_t bytes, const Exchange& exchange);
  // Unmaps a buffer on all ranks: each rank passes its pointer from the same call of Allocate. No
  // operation in flight may use it. Collective.
  absl::Status Free(char* data, const Exchange& exchange);

  // Returns the location of `data`, by which peers can Find it; -1 if it is not in memory of
  // Allocate.
  int64_t Locate(const void* data, int64_t bytes) const;
  // Returns the address in this process of what Locate returned `location` for on `rank`.
  char* Find(int rank, int64_t location) const;

  // Wakes a rank that sleeps. Called after a change that it may be waiting for; the change must
  // have been stored with sequential consistency.
  void Ring(int rank) const;
  bool IsAlive(int rank) const { return control_[rank]->MakerIsAlive(); }
  bool IsStopped(int rank) const { return control_[rank]->MakerIsStopped(); }
  // Returns the rank in the job of a rank of the host.
  int JobRank(int rank) const {
    return options_.job_ranks.empty() ? rank : options_.job_ranks[rank];
  }

  void PrepareWait(bool in_background) override;
  void CommitWait(std::chrono::nanoseconds at_most) override;
  void CancelWait() override;
  void Wake() override { Ring(rank_); }

 private:
  struct Region {
    Segments segments;  // empty if freed
    char* data = nullptr;
  };

  struct Doorbell;
  Doorbell& BellOf(int rank) const;

  SharedMemory(int rank, SharedMemoryOptions options) : rank_(rank), options_(std::move(options)) {}

  const int rank_;
  const SharedMemoryOptions options_;
  Segments control_;  // a Doorbell each

  uint32_t rings_seen_ = 0;  // by the sleeping thread

  // Returns a key for the exchanges of a collective call: another one in each, the same on all
  // ranks.
  std::string NextKey();

  mutable Mutex mutex_;
  std::vector<Region> regions_ ABSL_GUARDED_BY(mutex_);  // the same on all ranks
  int64_t exchanges_ ABSL_GUARDED_BY(mutex_) = 0;        // for keys so far
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_SHARED_MEMORY_H_
