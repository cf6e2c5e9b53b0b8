// A group of ranks of a host: its queue of operations, and the memory through which they meet.
#ifndef TESSERA_COLLECTIVES_SHM_GROUP_H_
#define TESSERA_COLLECTIVES_SHM_GROUP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/requests.h"
#include "collectives/shm/host.h"

namespace tessera::comm::shm {

// A buffer of up to this many bytes goes through a slot: one copy in, and no second meeting.
inline constexpr int64_t kSlotBytes = 16384;
// Operations of a rank that peers may not have looked at yet.
inline constexpr int kSlots = 4;
// What is in neither a slot nor shared memory goes through this, in rounds.
inline constexpr int64_t kStagingBytes = 262144;

// An operation moves on by pieces of this size, so that who issues another waits for no more.
inline constexpr int64_t kPieceBytes = 262144;

// What a rank wants of an operation, for its peers to read.
struct Wanted {
  Wish wish;
  int64_t input, output;  // where they lie (Host::Locate); -1: not in shared memory
};

// One operation of one rank.
struct alignas(64) Slot {
  std::atomic<uint64_t> posted;  // the operation's number and 1 more
  Wanted wanted;
  alignas(64) std::atomic<uint64_t> stage;  // how often this rank has met its peers in it
  alignas(64) char data[kSlotBytes];
};

// From one rank to another.
struct alignas(64) Pair {
  std::atomic<uint64_t> taken;  // messages to the owner that it has taken
  Slot slots[kSlots];           // messages from the owner
};

// What a rank has in a group, in shared memory; Pairs for each rank of the group follow.
struct Member {
  std::atomic<uint64_t> completed;           // collectives
  alignas(64) std::atomic<uint32_t> failed;  // then `failure` says why
  char failure[1020];
  Slot slots[kSlots];
  alignas(4096) char staging[2][kStagingBytes];

  Pair& pair(int rank) { return reinterpret_cast<Pair*>(this + 1)[rank]; }
  static int64_t Bytes(int ranks) {
    return static_cast<int64_t>(sizeof(Member) + ranks * sizeof(Pair));
  }
};

class Group : public Communicator {
 public:
  // `ranks` are the members' ranks on the host, `memory` is each member's.
  Group(Host* host, std::string name, int rank, std::vector<int> ranks,
        std::vector<std::shared_ptr<const Segment>> memory);
  ~Group() override;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors) override;

 private:
  friend class Host;
  using Time = std::chrono::steady_clock::time_point;

  // How an operation goes, which follows from what all ranks want.
  enum class Way { kEager, kDirect, kStaged };
  enum class Next { kMore, kMeet, kEnd };

  struct Queued {
    Request request;
    uint64_t number = 0;
    bool posted = false;   // peers can read what this rank wants
    bool agreed = false;   // all want the same
    bool meeting = false;  // all of this rank's work is done, up to here
    Way way = Way::kEager;
    int step = 0;          // of a round
    int64_t position = 0;  // what is done: elements, of a pair bytes
    uint64_t stage = 0;    // as in the slot
  };

  // Operations that are done in their order.
  struct Channel {
    static constexpr int kQueue = 64;
    Queued queue[kQueue];
    uint64_t issued = 0, done = 0;
    uint64_t messages = 0;  // of a pair: slots that were filled or taken
    Time since;             // when the first became the first
    Queued& head() { return queue[done % kQueue]; }
    bool empty() const { return done == issued; }
    bool full() const { return issued - done == kQueue; }
  };

  // All of what follows has the host's mutex held.
  bool IsDone(Ticket ticket) const;
  bool Advance();  // whether anything moved
  bool NeedsThread() const;
  // Whether what needs it takes longer than to wake it.
  bool HasLarge() const;
  // Fails if a peer that is waited for has died, given up, or not come in time.
  void Check(Time now);

  bool AdvanceCollective();
  bool AdvanceSend(Channel& channel, int peer);
  bool AdvanceReceive(Channel& channel, int peer);
  bool PostCollective(Queued& operation);
  bool Agree(Queued& operation);
  // What peers read of this rank's.
  int64_t BytesSent(const Request& request, Way way) const;
  bool Met(const Queued& operation) const;
  Next Work(Queued& operation);
  void WorkEager(const Queued& operation);
  Next WorkDirect(Queued& operation);
  char* InputOf(const Queued& operation, int rank) const;
  bool ReduceDirect(Queued& operation);
  bool CopyDirect(Queued& operation);
  Next WorkStaged(Queued& operation);

  // Elements that go through the staging areas at once: of the buffer, or of each part.
  struct Round {
    int64_t begin, count;
  };
  char* Area(int rank) const;
  static Part PartInRound(const Request& request, const Round& round, int rank);
  void StageIn(const Request& request, const Round& round);
  void ReduceStaged(const Request& request, const Round& round);
  void StageOut(const Request& request, const Round& round);

  static void Complete(Channel& channel);
  void WorkAlone(const Request& request);
  void Fill(const Request& request, const void* data, int64_t bytes, uint64_t number, Slot& slot);

  Channel& ChannelOf(int index);
  Member& Mine() const { return *members_[rank()]; }
  Slot& SlotOf(int rank, uint64_t number) const { return members_[rank]->slots[number % kSlots]; }
  void Ring(int rank) const;
  void RingAll() const;

  void Fail(absl::Status status);
  std::string RankName(int rank) const;
  std::vector<int> Missing(int index) const;

  Host* const host_;
  const std::vector<int> ranks_;
  const std::vector<std::shared_ptr<const Segment>> memory_;
  std::vector<Member*> members_;
  // 0: collectives; then to each rank; then from each rank.
  std::vector<std::unique_ptr<Channel>> channels_;
  absl::Status status_;  // of the group
  uint64_t staging_rounds_ = 0;
  std::vector<const void*> inputs_;  // of Reduce
  std::vector<void*> outputs_;
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_GROUP_H_
