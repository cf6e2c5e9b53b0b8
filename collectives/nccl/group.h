// A group of ranks with a GPU each: its operations, from when they are issued until they have
// ended.
//
// The group posts the operation's descriptor to the other ranks and calls NCCL. A thread of NCCL's
// puts the kernel on the lane's stream, and the group an event after it. The operation has ended
// when the event has, and all ranks have posted the same descriptor.
#ifndef TESSERA_COLLECTIVES_NCCL_GROUP_H_
#define TESSERA_COLLECTIVES_NCCL_GROUP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/nccl/comm.h"
#include "collectives/nccl/device.h"
#include "collectives/nccl/engine.h"
#include "collectives/requests.h"

namespace tessera::comm::nccl {

class Group : public StreamCommunicator {
 public:
  // `host_group` and `control` are groups of the same ranks over the CPU: the first for Split,
  // which the caller's thread uses, the second for operations. `owned_host_group` is the first if
  // this group owns it, or null. `comm` is null in a group of one rank.
  Group(Engine* engine, Communicator* host_group, std::unique_ptr<Communicator> owned_host_group,
        std::unique_ptr<Communicator> control, Comm comm);
  // Waits for operations in flight, for 5 seconds at most.
  ~Group() override;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;
  bool HasEnded(Ticket ticket) const override;
  CompletionSource* SourceOf(Ticket /*ticket*/) override { return nullptr; }
  Exchange SplitExchange() override { return ExchangeOver(host_group_); }
  absl::Status StartAfter(CUstream_st* stream) override;
  absl::Status LetWait(CUstream_st* stream, Ticket ticket) override;

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors) override;

 private:
  friend class Engine;
  using Time = std::chrono::steady_clock::time_point;

  static double SecondsSince(Time begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  struct Queued {
    Request request;
    std::vector<cudaEvent_t> after;  // the operation starts after these; those done are removed
    cudaEvent_t done = nullptr;      // recorded once the operation is on the stream
    bool agreed = false;             // all ranks have posted the same descriptor
    RequestDescriptor mine;
    std::vector<RequestDescriptor> theirs;  // by rank; for a receive, the sender's only
    Ticket exchange;                        // of the descriptors, over the control group
  };

  // A queue of operations that run in their order, on a stream and an ncclComm of their own.
  struct Lane {
    explicit Lane(int index) : index(index) {}
    const int index;
    std::deque<Queued> queue;  // operations that are issued and not done
    uint64_t issued = 0, done = 0;
    size_t posted = 0;       // operations of the queue whose descriptors are posted
    size_t launched = 0;     // operations of the queue that are on the stream
    bool launching = false;  // NCCL is launching the next one
    Time since;              // when the first operation became the first, and could start
    cudaStream_t stream = nullptr;
    absl::Status error;  // of NCCL; another rank may report its cause
    Time error_since;
    Comm comm;
    // A region of memory that is registered with the comm.
    struct Registered {
      const char* begin;
      void* handle;
    };
    std::vector<Registered> registered;
    // How far the comm of a sender and a receiver is made. The sender makes its id and sends it to
    // the receiver.
    enum class Connection { kNone, kExchanging, kConnecting, kOpen };
    Connection connection = Connection::kNone;
    ncclUniqueId id = {};
    bool has_id = false;
    absl::Status id_status;  // of the call that made the id
    Ticket id_exchange;
    Queued& head() { return queue.front(); }
  };

  // Makes the id with which a sender's lane connects, if it has none. That may take NCCL seconds:
  // call it without the engine's mutex.
  void MakeId(int index);
  // Makes this rank's part of a comm of the ranks with its color.
  absl::Status SplitComm(int color, const Comm& child);
  // For a group that has nothing under way. Needs no lock: the group has left the engine.
  void Close(Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // Tells the analysis of thread safety that the engine, which calls, holds its mutex.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(engine_->mutex_) {}

  Lane& LaneOf(int index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Moves the ticket's lane on. Returns whether the operation has ended.
  bool AdvanceTo(Ticket ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  bool IsDone(Ticket ticket) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Returns whether no kernel of a failed group uses a buffer any more, or 10 seconds have passed.
  bool HasSettled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Moves all lanes on. Sets `under_way` if operations are in flight, and `launching` if some of
  // them are not on their streams yet.
  void AdvanceAll(bool* under_way, bool* launching) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  void Advance(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  bool Connect(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  void Post(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  void Agree(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  void Launch(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  void Finish(Lane& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  void Check(Lane& lane, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  void CheckControl(const Lane& lane, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Puts an operation on the lane's stream.
  absl::Status Enqueue(Lane& lane, const Request& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  ncclResult_t EnqueueParts(const Lane& lane, const Request& request) const;
  absl::Status CopyAlone(const Lane& lane, const Request& request) const;
  void Register(Lane& lane, const void* data, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Before the memory at `begin` is freed.
  void Deregister(const char* begin) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);

  // Aborts the group, on the other ranks too. The first failure counts.
  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Fails with a message that begins with the lane's Place.
  void FailIn(const Lane& lane, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Fails with an error of NCCL or CUDA, after up to 2 seconds in which another rank may report its
  // cause first.
  void FailLater(Lane& lane, const absl::Status& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // "rank 1 of 4 of group 'world', in barrier after 41 collectives"
  std::string Place(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  absl::Status CheckMemory(const Request& request) const;

  Engine* const engine_;
  char* scratch_ = nullptr;  // a byte of GPU memory for barriers
  Communicator* const host_group_;
  const std::unique_ptr<Communicator> owned_host_group_;
  // Lane 0 has the collectives; then there is one for the messages to each rank, then one for those
  // from each rank.
  std::vector<std::unique_ptr<Lane>> lanes_ ABSL_GUARDED_BY(engine_->mutex_);
  std::vector<cudaEvent_t> after_
      ABSL_GUARDED_BY(engine_->mutex_);                   // what the next operation starts after
  Comm child_ ABSL_GUARDED_BY(engine_->mutex_);           // which NCCL is making
  absl::Status status_ ABSL_GUARDED_BY(engine_->mutex_);  // of the group
  std::shared_ptr<const std::atomic<bool>> settled_ ABSL_GUARDED_BY(engine_->mutex_);
  Time broken_ ABSL_GUARDED_BY(engine_->mutex_);
  Time control_checked_ ABSL_GUARDED_BY(engine_->mutex_);
  // Declared last, to be destroyed first: its operations read and write memory of the lanes.
  std::unique_ptr<Communicator> control_;
};

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_GROUP_H_
