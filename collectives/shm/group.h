// A group of ranks of one host, whose operations advance through memory that the ranks share.
#ifndef TESSERA_COLLECTIVES_SHM_GROUP_H_
#define TESSERA_COLLECTIVES_SHM_GROUP_H_

#include <atomic>
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
#include "collectives/shm/shared_memory.h"

namespace tessera::comm::shm {

// A buffer of up to this many bytes is sent through a slot: one copy in, and no second phase.
inline constexpr int64_t kSlotBytes = 16384;
// The number of a rank's operations that peers need not have read yet.
inline constexpr int kSlots = 4;
// The size of a staging area. Buffers that are neither small nor in shared memory are copied
// through it, in rounds.
inline constexpr int64_t kStagingBytes = 262144;

// An operation advances by this many bytes at a time, so that a thread that issues another one does
// not wait for long.
inline constexpr int64_t kPieceBytes = 262144;

// A request of a rank, for its peers to read.
struct PostedRequest {
  RequestDescriptor descriptor;
  int64_t input, output;  // locations (SharedMemory::Locate); -1: not in shared memory
};

// One operation of one rank.
struct alignas(64) Slot {
  std::atomic<uint64_t> posted;  // the operation's number + 1
  PostedRequest request;
  alignas(64) std::atomic<uint64_t> phase;  // phases that this rank has ended
  alignas(64) char data[kSlotBytes];
};

// The memory by which two ranks exchange messages, as far as its owner writes it: the messages to
// the peer, and how many of the peer's messages it has taken.
struct alignas(64) Pair {
  std::atomic<uint64_t> taken;  // slots of the peer's messages that the owner has taken
  Slot slots[kSlots];           // messages from the owner
};

// The state of a failure that a rank publishes.
enum class FailureState : uint32_t { kNone, kOwn, kReported };  // kReported: by a peer with kOwn

// A rank's memory in a group, which its peers map; Pairs for each rank of the group follow.
struct Member {
  std::atomic<uint64_t> completed;  // collectives
  // Set while the rank cannot post a collective because a peer has not completed an earlier one.
  std::atomic<uint32_t> awaits_slot;
  std::atomic<uint32_t> has_left;  // set when the rank destroys the group
  // Set when the rank fails, after which peers must not access its buffers. `reason` then holds the
  // cause.
  alignas(64) std::atomic<FailureState> failure;
  char reason[1020];
  // Set while the rank writes into buffers of its peers, or is about to check whether it may.
  alignas(64) std::atomic<uint32_t> is_writing;
  Slot slots[kSlots];
  alignas(4096) char staging[2][kStagingBytes];

  // Returns the owner's Pair for the messages to and from `rank`.
  Pair& pair(int rank) { return reinterpret_cast<Pair*>(this + 1)[rank]; }
  // Returns the size of the segment of a Member and its Pairs in a group of `ranks` ranks.
  static int64_t SegmentBytes(int ranks) {
    return static_cast<int64_t>(sizeof(Member) + ranks * sizeof(Pair));
  }
};

class Group : public QueuedGroup {
 public:
  // `ranks` are the members' ranks on the host, `members` is each member's Member.
  Group(SharedMemory* memory, ProgressEngine* engine, std::string name, int rank,
        std::vector<int> ranks, std::vector<std::shared_ptr<const Segment>> members,
        double timeout_seconds);
  ~Group() override;

 protected:
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors,
                                                          Contents /*contents*/) override;
  bool AdvanceFirst(int channel) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsSmall(const Request& request) const override;
  bool IsPosted(int channel) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  int WaitsFor(int channel, int rank) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CheckFailures() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::optional<Departure> DepartureOf(int rank) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsStopped(int rank) const override { return memory_->IsStopped(ranks_[rank]); }
  std::string RankName(int rank) const override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFailure(const absl::Status& why, bool is_first) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  // The algorithm of a collective. It is a function of the requests of all ranks.
  enum class Algorithm { kEager, kDirect, kStaged };
  // The outcome of a step: another step at once, another step after all ranks have reached this
  // phase, or the end.
  enum class Next { kStep, kPhase, kEnd };

  // The state of the first collective.
  struct Collective {
    bool is_posted = false;  // peers can read the request
    bool is_agreed = false;  // all requests are the same
    bool awaits_phase = false;
    // All ranks before this one have arrived: they have posted the request, or ended the phase.
    int arrived = 0;
    Algorithm algorithm = Algorithm::kEager;
    int step = 0;          // within a round
    int64_t position = 0;  // elements that are done
    uint64_t phase = 0;    // as Slot::phase
  };
  // A rank's buffers, at the addresses where this rank has mapped them. The request says which of
  // them the operation has.
  struct Buffers {
    char* input = nullptr;
    char* output = nullptr;
  };
  // The messages to a rank, or from one.
  struct Messages {
    uint64_t slots = 0;      // filled or taken so far
    int64_t position = 0;    // bytes of the first message sent or received
    bool is_posted = false;  // first message: its data's location is posted
  };

  // Advance the first operation of a channel by one step. Return whether anything advanced.
  bool AdvanceCollective() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AdvanceSend(int peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AdvanceReceive(int peer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first two steps of a collective. Post writes the request into this rank's slot, once that
  // is free. Agree compares all ranks' requests once they are posted, fails the group if they
  // differ, and chooses the algorithm.
  bool Post() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Agree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasSlotFor(uint64_t number) const;
  // Return whether a rank has posted the first collective, or ended its phase.
  bool HasPosted(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasEndedPhase(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same for all ranks.
  bool HaveAllPosted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HaveAllEndedPhase() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndCollective() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the bytes that peers read from this rank's memory.
  int64_t BytesSent(const Request& request, Algorithm algorithm) const;
  bool HasFailedMember() const;
  void WaitForWriters() const;

  // Runs the next step of an agreed collective, by its algorithm.
  Next Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunEager() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Next StepDirect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Next StepStaged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets buffers_ to those of all ranks' posted requests.
  void FindBuffers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Each processes one piece and returns whether there is more.
  bool ReduceDirect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool AllReduceDirect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CopyDirect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The elements, of the buffer or of each part, that pass the staging areas at once.
  struct Round {
    int64_t begin, count;
  };
  // Returns a rank's staging area for the current round.
  char* StagingArea(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Part PartInRound(const Request& request, const Round& round, int rank);
  // The steps of a round: copies this rank's input to its area, reduces its part of all areas (of
  // an all-reduce), and copies the output from the areas.
  void StageIn(const Request& request, const Round& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReduceStaged(const Request& request, const Round& round)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StageOut(const Request& request, const Round& round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Fills a slot for peers to read: the request, and the data if it is small.
  void Fill(const Request& request, const void* data, int64_t bytes, uint64_t number, Slot& slot);
  Member& Mine() const { return *members_[rank()]; }
  // Wake a peer, or all of them, after a change that they may be waiting for.
  // Returns a rank's slot for the first collective.
  Slot& SlotOf(int rank) const { return members_[rank]->slots[Done(0) % kSlots]; }
  void Ring(int rank) const { memory_->Ring(ranks_[rank]); }
  void RingAll() const;

  SharedMemory* const memory_;
  const std::vector<int> ranks_;
  const std::vector<std::shared_ptr<const Segment>> segments_;
  std::vector<Member*> members_;
  Collective collective_ ABSL_GUARDED_BY(mutex_);
  std::vector<Messages> messages_ ABSL_GUARDED_BY(mutex_);  // by channel
  uint64_t staging_rounds_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Buffers> buffers_ ABSL_GUARDED_BY(mutex_);  // of the first collective, if direct
  std::vector<RequestDescriptor> descriptors_ ABSL_GUARDED_BY(mutex_);  // of Agree
  std::vector<const void*> inputs_ ABSL_GUARDED_BY(mutex_);             // of Reduce
  std::vector<void*> outputs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_GROUP_H_
