// Ranks of one host that communicate through shared memory.
//
// Where a buffer lies in memory that Allocate gave, peers read it, and reduce into it, in place.
// Any other buffer works too, through a staging area.
//
// Operations move on while their rank waits for one of them, and otherwise on a thread of the
// host's own. Waiting spins for a moment and then sleeps.
//
// Thread safety: as Communicator; Allocate and the making of groups come from one thread at a time.
#ifndef TESSERA_COLLECTIVES_SHM_HOST_H_
#define TESSERA_COLLECTIVES_SHM_HOST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/progress_thread.h"
#include "collectives/shm/doorbell.h"
#include "collectives/shm/segment.h"

namespace tessera::comm::shm {

struct HostOptions {
  double timeout_seconds = 60;  // the longest that an operation waits for a peer
  // Of the host's ranks in the job, for messages. Empty: all of the job are on the host.
  std::vector<int> job_ranks = {};
};

class Group;

class Host {
 public:
  // Collective over the ranks of the host. `exchange` is not used afterwards.
  static absl::StatusOr<std::unique_ptr<Host>> Create(int rank, int size, const Exchange& exchange,
                                                      const HostOptions& options);
  ~Host();  // all groups must have gone
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  // The group of all ranks, once.
  absl::StatusOr<std::unique_ptr<Communicator>> World(absl::string_view name = "world");

  // Memory of this rank that its peers see too: zeros, aligned to a page, until the Host goes.
  // Collective; each rank asks for as much as it needs. ResourceExhausted on all ranks if there is
  // not so much for one of them.
  absl::StatusOr<char*> Allocate(Communicator& world, int64_t bytes);

 private:
  friend class Group;

  // Memory of all ranks, of which each sees all.
  struct Region {
    std::vector<std::shared_ptr<const Segment>> segments;  // by rank of the host
  };

  Host(int rank, int size, const HostOptions& options);

  // Every rank gives a segment or why it has none; opens all.
  static absl::StatusOr<Region> Share(const absl::StatusOr<std::shared_ptr<const Segment>>& mine,
                                      const Exchange& exchange, absl::string_view key);

  // Where bytes lie, so that a peer finds them: -1 if they are not in memory of Allocate.
  int64_t Locate(const void* data, int64_t bytes) const;
  char* Find(int rank, int64_t location) const;

  Doorbell& BellOf(int rank) const;
  bool IsAlive(int rank) const { return control_.segments[rank]->MakerIsAlive(); }
  bool IsStopped(int rank) const { return control_.segments[rank]->MakerIsStopped(); }

  void Add(Group* group);
  void Remove(Group* group);

  // Moves operations on until `done`, which is called with the mutex held, says so.
  void WaitUntil(const std::function<bool()>& done);
  // Has the thread look after operations, unless a caller does. With the mutex held.
  void WakeThread();

  bool AdvanceAll();  // whether anything moved
  bool AnyNeedsThread() const;
  void CheckAll();
  // One turn of waiting, after one in which nothing moved; returns whether something did.
  bool SleepUnless(const std::function<bool()>& done);
  // The thread's part: whether there was something to do, or a caller does it.
  bool AdvanceUnlessCalled();

  const int rank_, size_;
  const HostOptions options_;
  Region control_;               // a Doorbell each
  Region world_memory_;          // until World takes it
  std::vector<Region> regions_;  // of Allocate

  std::mutex mutex_;  // guards what follows, and the state of all groups
  std::vector<Group*> groups_;
  std::atomic<int> callers_ = 0;  // in WaitUntil, also before they have the mutex

  std::unique_ptr<ProgressThread> thread_;  // none where the rank is alone
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_HOST_H_
