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
#include "collectives/shm/doorbell.h"
#include "collectives/shm/segment.h"
#include "core/sync/mutex.h"

namespace tessera::comm::shm {

struct SharedMemoryOptions {
  // A buffer ends where a page that nobody may touch begins, up to 63 bytes for alignment.
  bool guarded = false;
  // The job's ranks of the host's ranks, for messages. Empty: they are the same.
  std::vector<int> job_ranks = {};
};

// Is the event source of the host's engine: a rank sleeps on its doorbell.
class SharedMemory : public EventSource {
 public:
  using Segments = std::vector<std::shared_ptr<const Segment>>;  // by rank of the host

  // Collective over the ranks of the host.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Create(int rank, const Exchange& exchange,
                                                              SharedMemoryOptions options);

  // A segment of `bytes` on each rank, which all of them map. Collective over the exchange's ranks:
  // ResourceExhausted on all of them if one has not so much memory.
  static absl::StatusOr<Segments> Share(int64_t bytes, const Exchange& exchange,
                                        absl::string_view key);

  // A buffer of this rank that its peers reach: zeros, aligned to 64 bytes. Collective over the
  // ranks of the host.
  absl::StatusOr<char*> Allocate(int64_t bytes, const Exchange& exchange);
  // Unmaps it, on all ranks: each passes what one call of Allocate returned to it. No operation may
  // be in flight on it. Collective.
  absl::Status Free(char* data, const Exchange& exchange);

  // Where bytes are, so that a peer finds them: -1 if they are not in memory of Allocate.
  int64_t Locate(const void* data, int64_t bytes) const;
  char* Find(int rank, int64_t location) const;

  Doorbell& BellOf(int rank) const;
  bool IsAlive(int rank) const { return control_[rank]->MakerIsAlive(); }
  bool IsStopped(int rank) const { return control_[rank]->MakerIsStopped(); }
  // The rank in the job of a rank of the host.
  int JobRank(int rank) const {
    return options_.job_ranks.empty() ? rank : options_.job_ranks[rank];
  }

  void Arm(bool in_background) override;
  void Sleep(std::chrono::nanoseconds at_most) override;
  void Disarm() override;
  void Wake() override { BellOf(rank_).Ring(); }

 private:
  struct Region {
    Segments segments;  // none: it was freed
    char* data = nullptr;
  };

  SharedMemory(int rank, SharedMemoryOptions options) : rank_(rank), options_(std::move(options)) {}

  const int rank_;
  const SharedMemoryOptions options_;
  Segments control_;  // a Doorbell each

  uint32_t rings_seen_ = 0;  // by the one that sleeps

  mutable Mutex mutex_;
  std::vector<Region> regions_ ABSL_GUARDED_BY(mutex_);  // the same on all ranks
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_SHARED_MEMORY_H_
