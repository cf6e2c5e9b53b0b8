// A group on several hosts: its queue of operations, and the groups of which it is made.
#ifndef TESSERA_COLLECTIVES_HIERARCHICAL_GROUP_H_
#define TESSERA_COLLECTIVES_HIERARCHICAL_GROUP_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/hierarchical/placement.h"
#include "collectives/requests.h"

namespace tessera::comm::hierarchical {

// What a rank gives to an operation goes along with what it wants, if it is not more than this:
// then its neighbours need not meet again.
inline constexpr int64_t kSmallBytes = 4096;

// Larger operations go on by chunks of this size, so that one is under way between hosts while
// another is within them.
inline constexpr int64_t kChunkBytes = int64_t{4} << 20;

// What the group's operations are made of. The ranks of a rail are numbered by their hosts.
struct Parts {
  std::unique_ptr<Communicator> local;  // this host's ranks
  std::unique_ptr<Communicator> rail;   // null: this rank is on none
  std::unique_ptr<Communicator> all;    // messages of collectives between two ranks
  // The first two again, for what their ranks want.
  std::unique_ptr<Communicator> local_wishes, rail_wishes;
  // The user's own messages.
  std::unique_ptr<Communicator> local_pairs;
  std::unique_ptr<Communicator> pairs;
};

class Group : public Communicator {
 public:
  Group(std::string name, int rank, Placement placement, Parts parts);
  // Gives up what has not ended.
  ~Group() override;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;
  std::string note() const override;

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors) override;

 private:
  struct LocalWish {
    Wish wish;
    char data[kSmallBytes];  // of a small operation
  };

  bool IsDone(uint64_t number) const { return !status_.ok() || done_ > number; }
  // Sees to the first operation. The lock is given up meanwhile.
  void Drive(std::unique_lock<std::mutex>& lock);
  void RunThread();
  void Break(absl::Status status);
  int64_t BytesSent() const;

  // What follows runs on one thread at a time, without the lock.
  absl::Status Run(const Request& request, uint64_t number);
  // Whether the ranks of the host want the same; those of the rail are asked.
  // (All are needed here, so who does not come is himself to be blamed.)
  absl::Status AgreeLocally(const Request& request, uint64_t number);
  // Whether the ranks of the rail want the same: before any other wait for one of them.
  absl::Status AgreeOnRail(uint64_t number);
  absl::Status CheckAgreement(absl::Span<const int> ranks, absl::Span<const Wish> wishes,
                              uint64_t number) const;

  // Everyone has what its neighbours gave: the rest is one operation on each rail.
  bool IsSmall(const Request& request) const;
  absl::Status RunSmall(const Request& request, uint64_t number);
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

  const Placement::Place& place() const { return placement_.places[rank()]; }
  const std::vector<int>& host_ranks() const { return placement_.hosts[place().host]; }
  char* Scratch(int index, int64_t bytes);

  const Placement placement_;
  const Parts parts_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Request> queue_;
  uint64_t issued_ = 0, done_ = 0;
  bool is_driven_ = false, stop_ = false;
  absl::Status status_;

  // Of who drives.
  std::vector<LocalWish> local_wishes_;  // and this rank's own behind them
  std::vector<Wish> rail_wishes_;
  Ticket rail_ticket_;
  struct Memory {
    std::unique_ptr<char[]> data;
    int64_t bytes = 0;
  };
  Memory scratch_[3];

  std::thread thread_;
};

}  // namespace tessera::comm::hierarchical

#endif  // TESSERA_COLLECTIVES_HIERARCHICAL_GROUP_H_
