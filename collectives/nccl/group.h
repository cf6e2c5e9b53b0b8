// A group of ranks with one GPU each.
//
// The group posts the operation's descriptor to the other ranks and calls NCCL. A thread of NCCL's
// puts the kernel on the channel's stream, and the group an event after it. The operation has ended
// when the event has, and all ranks have posted the same descriptor. A stream runs its kernels in
// order, so the group launches all operations that are issued.
#ifndef TESSERA_COLLECTIVES_NCCL_GROUP_H_
#define TESSERA_COLLECTIVES_NCCL_GROUP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/nccl/comm.h"
#include "collectives/nccl/device.h"
#include "collectives/nccl/gpu_device.h"
#include "collectives/queue/queued_group.h"
#include "collectives/requests.h"

namespace tessera::comm::nccl {

class Group : public QueuedGroup, public StreamOrder {
 public:
  // `host_group` and `control` are groups of the same ranks over the CPU: the first for Split,
  // which the caller's thread uses, the second for operations. `owned_host_group` is the first if
  // this group owns it, or null. `comm` is null in a group of one rank.
  Group(GpuDevice* device, Communicator* host_group, std::unique_ptr<Communicator> owned_host_group,
        std::unique_ptr<Communicator> control, Comm comm);
  // Waits for operations in flight, for 5 seconds at most.
  ~Group() override;

  bool HasEnded(Ticket ticket) const override;
  Exchange SplitExchange() override { return ExchangeOver(host_group_); }
  absl::Status StartAfter(CUstream_st* stream) override;
  absl::Status LetWait(CUstream_st* stream, Ticket ticket) override;

  // A launch is short, so the thread that issues an operation launches it.
  bool AdvanceSmall() override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasLargeOperation() const override { return true; }

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors,
                                                          Contents /*contents*/) override;
  bool AdvanceFirst(int channel) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool RunsAlone() const override { return false; }
  void CheckChannel(int channel, Time now) override ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnFailure(const absl::Status& why, bool is_first) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 private:
  using Events = std::vector<cudaEvent_t>;

  // An operation that has not ended.
  struct InFlight {
    Events after;                // it starts after these; those that have happened are removed
    cudaEvent_t done = nullptr;  // recorded once the operation is on the stream
    bool is_agreed = false;      // all ranks have posted the same descriptor
    RequestDescriptor mine;
    std::vector<RequestDescriptor> theirs;  // by rank; for a receive, the sender's only
    Ticket exchange;                        // of the descriptors, over the control group
  };

  // A channel's stream and ncclComm.
  struct Lane {
    explicit Lane(int channel) : channel(channel) {}
    const int channel;
    std::deque<InFlight> operations;   // of Pending(channel), from the first on
    std::map<uint64_t, Events> after;  // of operations that are not in `operations`, by number
    size_t posted = 0;                 // operations whose descriptors are posted
    bool is_launching = false;         // NCCL is launching the next one
    cudaStream_t stream = nullptr;
    absl::Status error;  // of NCCL; the control group may report its cause
    std::chrono::steady_clock::time_point error_since;
    Comm comm;
    // How far the comm of a sender and a receiver is made. The sender makes its id and sends it to
    // the receiver.
    enum class Connection { kNone, kExchanging, kConnecting, kOpen };
    Connection connection = Connection::kNone;
    ncclUniqueId id = {};
    bool has_id = false;
    absl::Status id_status;  // of the call that made the id
    Ticket id_exchange;
  };

  // A receive from a rank over the control group, by which that group notices if the rank is gone.
  struct Watch {
    bool is_posted = false;
    Ticket receive;
    char data[sizeof(ncclUniqueId)];
  };

  // Makes the id with which a sender's lane connects, if it has none. That may take NCCL seconds:
  // call it without the mutex.
  void MakeId(int channel);
  // Makes this rank's part of a comm of the ranks with its color.
  absl::Status SplitComm(int color, const Comm& child);
  // Ends the comms of a group that has left the progress engine, and has nothing under way.
  void Close(std::chrono::steady_clock::time_point deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  Lane& LaneOf(int channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The number of a lane's operations that are on its stream.
  size_t Launched(const Lane& lane) const {
    return static_cast<size_t>(launched_[lane.channel].load() - Done(lane.channel));
  }
  // Returns whether no kernel of a failed group uses a buffer any more, or 10 seconds have passed.
  bool HasSettled() const;

  // Steps of AdvanceFirst.
  bool Connect(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Post(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Agree(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Launch(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Finish(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts an operation on the lane's stream.
  absl::Status Enqueue(Lane& lane, const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ncclResult_t EnqueueParts(const Lane& lane, const Request& request) const;
  absl::Status CopyAlone(const Lane& lane, const Request& request) const;

  // Fails with a message that begins with the rank and the lane's first operation: "rank 1 of 4 of
  // group 'world', in barrier after 41 collectives: ...".
  void FailIn(int channel, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fails with an error of NCCL or CUDA, after up to 2 seconds in which the control group may
  // report its cause first: a failure of another rank, or a rank that is gone.
  void FailLater(Lane& lane, const absl::Status& error) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes the control group fail if a rank is gone. Called repeatedly while an error is held back.
  // Meanwhile lanes begin no receive over the control group.
  void WatchPeers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckMemory(const Request& request) const;

  GpuDevice* const device_;
  char* const scratch_;  // a byte of GPU memory for barriers
  Communicator* const host_group_;
  const std::unique_ptr<Communicator> owned_host_group_;
  Events after_;  // what the next operation starts after; the issuing thread's
  std::vector<std::unique_ptr<Lane>> lanes_ ABSL_GUARDED_BY(mutex_);  // by channel
  std::unique_ptr<std::atomic<uint64_t>[]> launched_;  // by channel: operations so far
  Comm child_ ABSL_GUARDED_BY(mutex_);                 // which NCCL is making
  Time control_checked_ ABSL_GUARDED_BY(mutex_);
  std::vector<Watch> watches_ ABSL_GUARDED_BY(mutex_);  // by rank; empty until there is an error
  // Set before the group has failed, and constant from then on.
  std::shared_ptr<const std::atomic<bool>> settled_;
  std::chrono::steady_clock::time_point aborted_;
  // Declared last, to be destroyed first: its operations read and write memory of the lanes and
  // watches.
  std::unique_ptr<Communicator> control_;
};

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_GROUP_H_
