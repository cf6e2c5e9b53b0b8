// A group of ranks: its operations, from when they are issued until they have ended.
//
// An operation is told to the other ranks, handed to NCCL, put on its lane's stream by a thread of
// NCCL's, followed by an event there, and done when the event is and all ranks want the same.
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
  // Two groups over the CPU, of the same ranks: `meeting` for the caller, to make groups, and
  // `control` for operations. No comm where there is one rank.
  Group(Engine* engine, Communicator* meeting, std::unique_ptr<Communicator> own_meeting,
        std::unique_ptr<Communicator> control, Comm comm);
  // Waits for a few seconds for what is under way.
  ~Group() override;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;
  bool HasEnded(Ticket ticket) const override;
  CompletionSource* SourceOf(Ticket /*ticket*/) override { return nullptr; }
  Exchange SplitExchange() override { return ExchangeOver(meeting_); }
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
    std::vector<cudaEvent_t> after;  // that have not been seen to be done
    cudaEvent_t done = nullptr;      // recorded once it is on the stream
    bool agreed = false;             // all want the same
    RequestDescriptor mine;
    std::vector<RequestDescriptor> theirs;  // by rank; of a receive the sender's
    Ticket told;                            // of the control group
  };

  // Operations that are done in their order, on a stream of their own.
  struct Lane {
    explicit Lane(int index) : index(index) {}
    const int index;
    std::deque<Queued> queue;  // those from `done` to `issued`
    uint64_t issued = 0, done = 0;
    size_t posted = 0;       // of the queue: the others are told
    size_t launched = 0;     // of the queue: on the stream
    bool launching = false;  // NCCL has the next one in hand
    Time since;              // when the first became the first, and could start
    cudaStream_t stream = nullptr;
    absl::Status error;  // of NCCL, which may have a reason that the ranks know
    Time error_since;
    Comm comm;
    // What is registered with the comm.
    struct Registered {
      const char* begin;
      void* handle;
    };
    std::vector<Registered> registered;
    // Of two ranks, the sender makes an id for their comm and sends it to the receiver.
    enum class Way { kNone, kTold, kConnecting, kOpen } way = Way::kNone;
    ncclUniqueId id = {};
    bool has_id = false;
    absl::Status id_status;  // of the call that made it
    Ticket told;
    Queued& head() { return queue.front(); }
  };

  // Makes the id with which a sender's lane connects, if it has none. That may take NCCL seconds:
  // call it without the engine's mutex.
  void MakeId(int index);
  // Makes this rank's part of a comm of those with its color.
  absl::Status Divide(int color, const Comm& child);
  // For a group that has nothing under way. Needs no lock: the group has left the engine.
  void Close(Time deadline) ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // Tells the analysis of thread safety that the engine, which calls, holds its mutex.
  void AssertLocked() const ABSL_ASSERT_EXCLUSIVE_LOCK(engine_->mutex_) {}

  Lane& LaneOf(int index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Moves the ticket's lane on. Returns whether the operation has ended.
  bool AdvanceTo(Ticket ticket) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  bool IsDone(Ticket ticket) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Whether no kernel of a broken group touches a buffer any more, or that is not known in time.
  bool HasSettled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // Moves all lanes on. Whether something is under way, and whether NCCL is about to launch it.
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

  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // The same, where the lane is.
  void FailIn(const Lane& lane, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // The same for what NCCL or CUDA says: it waits a little for the other ranks to give the reason.
  void FailLater(Lane& lane, const absl::Status& error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  // "rank 1 of 4 of group 'world', in barrier after 41 collectives"
  std::string Place(const Lane& lane) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(engine_->mutex_);
  absl::Status CheckMemory(const Request& request) const;

  Engine* const engine_;
  char* scratch_ = nullptr;  // a byte of the GPU for barriers
  Communicator* const meeting_;
  const std::unique_ptr<Communicator> own_meeting_;
  // 0: collectives; then to each rank; then from each rank.
  std::vector<std::unique_ptr<Lane>> lanes_ ABSL_GUARDED_BY(engine_->mutex_);
  std::vector<cudaEvent_t> after_ ABSL_GUARDED_BY(engine_->mutex_);  // of the next operation
  Comm child_ ABSL_GUARDED_BY(engine_->mutex_);                      // that NCCL is about to make
  absl::Status status_ ABSL_GUARDED_BY(engine_->mutex_);             // of the group
  std::shared_ptr<const std::atomic<bool>> settled_ ABSL_GUARDED_BY(engine_->mutex_);
  Time broken_ ABSL_GUARDED_BY(engine_->mutex_);
  Time looked_ ABSL_GUARDED_BY(engine_->mutex_);
  // It reads and writes what is in the lanes.
  std::unique_ptr<Communicator> control_;
};

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_GROUP_H_
