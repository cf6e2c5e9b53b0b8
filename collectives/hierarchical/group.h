// A group of ranks on several hosts, whose operations are made of operations of other groups.
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

// An input of up to this many bytes is sent together with the request, which saves the ranks of a
// host one more exchange.
inline constexpr int64_t kSmallBytes = 4096;

// Larger operations are split into chunks of this size, so that one chunk travels between hosts
// while another is reduced within a host.
inline constexpr int64_t kChunkBytes = int64_t{4} << 20;
inline int64_t ChunkElements(DType dtype) { return kChunkBytes / SizeOf(dtype); }

// The groups whose operations this group uses. A rank's number in its rail is the number of its
// host.
struct Subgroups {
  std::unique_ptr<Communicator> local;  // this host's ranks
  std::unique_ptr<Communicator> rail;   // null if this rank is on no rail
  std::unique_ptr<Communicator> all;    // messages of collectives between two ranks
  // The same ranks as the first two, for the comparison of requests.
  std::unique_ptr<Communicator> local_requests, rail_requests;
  // For the user's sends and receives.
  std::unique_ptr<Communicator> local_pairs;
  std::unique_ptr<Communicator> pairs;

  // Returns all of these that are not null.
  std::vector<Communicator*> List() const;
};

// The engine of a group. Each group has its own, because a step of an operation waits for other
// groups.
struct OwnEngine {
  NoEvents events;
  ProgressEngine own_engine{&events, {.spins = false}};
};

class Group : private OwnEngine, public QueuedGroup {
 public:
  // `grace_seconds` is passed to MakeGroup (hierarchical.h) when Split makes groups.
  Group(std::string name, int rank, RankPlacement placement, Subgroups subgroups,
        double grace_seconds);
  ~Group() override;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;
  bool HasEnded(Ticket ticket) const override;
  CompletionSource* SourceOf(Ticket ticket) override;
  std::string note() const override;
  Traffic traffic() const override;
  void set_grace_period(double seconds) override;

  bool AdvanceSmall() override { return false; }
  bool NeedsThread() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return HasOperations();
  }
  bool HasLargeOperation() const override { return true; }
  // The subgroups notice late ranks.
  void Check(Time /*now*/) override {}

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors,
                                                          Contents contents) override;
  // Runs an operation from its start to its end, without the mutex.
  bool AdvanceFirst(int channel) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsWorkedOn() const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return is_running_; }
  void OnFailure(const absl::Status& why, bool is_first) override;

 private:
  struct LocalRequest {
    RequestDescriptor descriptor;
    char data[kSmallBytes];  // of a small operation
  };

  // The subgroup that runs a send or receive, and the ticket of the operation in it.
  struct PairOperation {
    Communicator* group;
    Ticket ticket;
  };
  PairOperation PairOf(Ticket ticket) const;
  // Returns the sums of the bytes that the subgroups have sent and staged for collectives.
  OperationCount CountOfSubgroups() const;

  // Waits for an operation of a subgroup. Also returns an error if another one has failed: a peer
  // on another host may have aborted while this rank waits for a rank of its own host.
  absl::Status WaitFor(Communicator& subgroup, Ticket ticket);
  absl::Status WaitForAll(Communicator& subgroup, absl::Span<const Ticket> tickets);
  // Processes the reports of peers in every subgroup. Returns an error if one has failed.
  absl::Status FailureOfSubgroups();

  // The functions below run on one thread at a time, without the mutex.
  absl::Status Run(const Request& request, uint64_t number);
  absl::Status RunCollective(const Request& request, uint64_t number);
  // Compares the requests of the host's ranks, and starts to compare those of the rail. Needs all
  // ranks of the host, so a missing rank is itself the cause of the failure.
  absl::Status AgreeLocally(const Request& request, uint64_t number);
  // Compares the requests of the rail's ranks. Called before any other wait for one of them.
  absl::Status AgreeOnRail(uint64_t number);

  // Returns whether each rank already has the data of its host, so that one operation per rail
  // completes the request.
  bool IsEager(const Request& request) const;
  absl::Status RunEager(const Request& request, uint64_t number);
  Ticket StartEager(const Request& request, char* sums, int64_t* count);
  // The algorithms of larger requests, each from its start to its end. `number` is that of the
  // operation in this group.
  absl::Status AllReduceChunks(const Request& request, uint64_t number);
  absl::Status ReduceScatterBlocks(const Request& request, uint64_t number);
  absl::Status ReduceScatterByAllReduce(const Request& request, uint64_t number);
  absl::Status AllGatherBlocks(const Request& request, uint64_t number);
  absl::Status AllGatherByBroadcast(const Request& request, uint64_t number);
  absl::Status AllToAllMessages(const Request& request, uint64_t number);
  absl::Status BroadcastChunks(const Request& request, uint64_t number);
  absl::Status BroadcastFrom(int root, const void* input, char* output, int64_t count, DType dtype);

  // A chunk of an all-reduce, in three steps: ReduceWithinHost, RoundSums (only for dtypes whose
  // partial sums are fp32), GatherWithinHost.
  struct Chunk;
  absl::Status ReduceWithinHost(Chunk& chunk);
  absl::Status RoundSums(Chunk& chunk);
  absl::Status GatherWithinHost(Chunk& chunk);

  const RankPlacement::Place& place() const { return placement_.places[rank()]; }
  const std::vector<int>& host_ranks() const { return placement_.hosts[place().host]; }
  // Returns the scratch buffer of this index, of at least `bytes`. If it has to grow, its contents
  // are lost.
  char* Scratch(int index, int64_t bytes);

  const RankPlacement placement_;
  const Subgroups subgroups_;
  const double grace_seconds_;

  bool is_running_ ABSL_GUARDED_BY(mutex_) = false;  // whether a thread runs an operation

  // Used by the thread that runs an operation.
  std::vector<LocalRequest> local_requests_;  // the last one is this rank's own
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
