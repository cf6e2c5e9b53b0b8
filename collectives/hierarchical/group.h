// A group on several hosts: how its operations are made of those of other groups.
#ifndef TESSERA_COLLECTIVES_HIERARCHICAL_GROUP_H_
#define TESSERA_COLLECTIVES_HIERARCHICAL_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/queue/queued_group.h"
#include "collectives/requests.h"
#include "core/tensor/rank_placement.h"

namespace tessera::comm::hierarchical {

// An input of up to this many bytes goes along with the request: then the ranks of a host need not
// exchange data once more.
inline constexpr int64_t kSmallBytes = 4096;

// Larger operations move on by chunks of this size, so that one is under way between hosts while
// another is within them.
inline constexpr int64_t kChunkBytes = int64_t{4} << 20;
inline int64_t ChunkElements(DType dtype) { return kChunkBytes / SizeOf(dtype); }

// The groups that the group's operations are made of. The ranks of a rail are numbered by their
// hosts.
struct Parts {
  std::unique_ptr<Communicator> local;  // this host's ranks
  std::unique_ptr<Communicator> rail;   // null: this rank is on none
  std::unique_ptr<Communicator> all;    // messages of collectives between two ranks
  // The first two again, for the requests of their ranks.
  std::unique_ptr<Communicator> local_requests, rail_requests;
  // The user's own messages.
  std::unique_ptr<Communicator> local_pairs;
  std::unique_ptr<Communicator> pairs;

  // All of these that are not null.
  std::vector<Communicator*> List() const;
};

// The engine of a group: each has its own, because a step of an operation waits for other groups.
struct OwnEngine {
  NoEvents events;
  ProgressEngine own_engine{&events, {.spins = false}};
};

class Group : private OwnEngine, public QueuedGroup {
 public:
  // `grace_seconds` is for MakeGroup (hierarchical.h) of the groups that Split makes.
  Group(std::string name, int rank, RankPlacement placement, Parts parts, double grace_seconds);
  ~Group() override;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;
  bool HasEnded(Ticket ticket) const override;
  CompletionSource* SourceOf(Ticket ticket) override;
  std::string note() const override;
  void set_grace_period(double seconds) override;

  bool AdvanceSmall() override { return false; }
  bool NeedsThread() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return HasOperations();
  }
  bool HasLarge() const override { return true; }
  // The parts notice late ranks.
  void Check(Time /*now*/) override {}

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors) override;
  // Runs an operation from its start to its end, without the mutex.
  bool AdvanceFirst(int channel) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFailure(const absl::Status& why, bool is_first) override;

 private:
  struct LocalRequest {
    RequestDescriptor descriptor;
    char data[kSmallBytes];  // of a small operation
  };

  // The part that has an operation between two ranks, and its ticket there.
  struct PairOperation {
    Communicator* group;
    Ticket ticket;
  };
  PairOperation PairOf(Ticket ticket) const;
  int64_t BytesSent() const;

  // Waits for an operation of a part. Ends with an error too if another part has failed: a peer
  // elsewhere may have aborted while this rank waits for one of its host.
  absl::Status WaitFor(Communicator& part, Ticket ticket);
  absl::Status WaitForAll(Communicator& part, absl::Span<const Ticket> tickets);
  // Takes in what peers have reported to any part. Returns an error if a part has failed.
  absl::Status FailureOfParts();

  // The functions below run on one thread at a time, without the mutex.
  absl::Status Run(const Request& request, uint64_t number);
  absl::Status RunCollective(const Request& request, uint64_t number);
  // Compares the requests of the host's ranks, and starts to compare those of the rail. All ranks
  // of the host are needed here, so a rank that does not come is itself the cause.
  absl::Status AgreeLocally(const Request& request, uint64_t number);
  // Compares the requests of the rail's ranks: before any other wait for one of them.
  absl::Status AgreeOnRail(uint64_t number);
  absl::Status CheckAgreement(absl::Span<const int> ranks,
                              absl::Span<const RequestDescriptor> descriptors,
                              uint64_t number) const;

  // Each rank has the data of its host: the rest is one operation on each rail.
  bool IsEager(const Request& request) const;
  absl::Status RunSmall(const Request& request, uint64_t number);
  Ticket StartSmall(const Request& request, char* sums, int64_t* count);
  absl::Status AllReduceChunks(const Request& request, uint64_t number);
  absl::Status ReduceScatterBlocks(const Request& request, uint64_t number);
  absl::Status ReduceScatterByAllReduce(const Request& request, uint64_t number);
  absl::Status AllGatherBlocks(const Request& request, uint64_t number);
  absl::Status AllGatherByBroadcast(const Request& request, uint64_t number);
  absl::Status AllToAllMessages(const Request& request, uint64_t number);
  absl::Status BroadcastChunks(const Request& request, uint64_t number);
  absl::Status BroadcastFrom(int root, const void* input, char* output, int64_t count, DType dtype);

  // A chunk of an all-reduce, in three steps.
  struct Chunk;
  absl::Status ReduceWithinHost(Chunk& chunk);
  absl::Status RoundOnRail(Chunk& chunk);
  absl::Status GatherWithinHost(Chunk& chunk);

  const RankPlacement::Place& place() const { return placement_.places[rank()]; }
  const std::vector<int>& host_ranks() const { return placement_.hosts[place().host]; }
  char* Scratch(int index, int64_t bytes);

  const RankPlacement placement_;
  const Parts parts_;
  const double grace_seconds_;

  bool is_running_ ABSL_GUARDED_BY(mutex_) = false;  // an operation, on some thread

  // Used by the thread that runs an operation.
  std::vector<LocalRequest> local_requests_;  // and this rank's own behind them
  std::vector<RequestDescriptor> rail_requests_;
  Ticket rail_ticket_;
  struct Memory {
    std::unique_ptr<char[]> data;
    int64_t bytes = 0;
  };
  Memory scratch_[3];
};

}  // namespace tessera::comm::hierarchical

#endif  // TESSERA_COLLECTIVES_HIERARCHICAL_GROUP_H_
