// The queue of operations of a group: channels, tickets, completion, time-outs and failure. A
// backend derives from it and implements how an operation advances.
#ifndef TESSERA_COLLECTIVES_QUEUE_QUEUED_GROUP_H_
#define TESSERA_COLLECTIVES_QUEUE_QUEUED_GROUP_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "collectives/communicator.h"
#include "collectives/queue/progress_engine.h"
#include "core/sync/mutex.h"

namespace tessera::comm {

// A group whose operations an engine advances. Operations of one channel end in the order in which
// they were issued. Channel 0 has the group's collectives; then follow one channel for the messages
// to each rank and one for those from each rank. A backend may start an operation before its
// predecessor has ended.
class QueuedGroup : public Communicator {
 public:
  using Time = ProgressEngine::Time;

  // The engine outlives the group. An operation waits at most `timeout_seconds` for a peer.
  QueuedGroup(ProgressEngine* engine, std::string name, int rank, int size, double timeout_seconds);
  ~QueuedGroup() override = default;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;
  bool HasEnded(Ticket ticket) const override;
  CompletionSource* SourceOf(Ticket /*ticket*/) override { return engine_; }

  // The engine calls these.
  void AssertMutexHeld() ABSL_ASSERT_EXCLUSIVE_LOCK(mutex_) {}
  // Queues a submitted operation. If the submission is an error, fails the group instead.
  void TakeSubmission(ProgressEngine::Submission submission) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Advances the first operation of each channel. Returns whether any advanced.
  bool Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Advances small operations as far as possible without waiting. Returns whether more work may be
  // left.
  virtual bool AdvanceSmall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether there are operations that should advance even if no thread waits for them.
  virtual bool NeedsThread() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasOperations() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether an operation takes longer than waking a thread does.
  virtual bool HasLargeOperation() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fails the group if an awaited peer has gone or is too late. Called repeatedly.
  virtual void Check(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;

  // Removes the group from its engine; operations in flight fail, also on the peers. The destructor
  // of the derived class calls it.
  void Leave();
  // The first half of Leave: operations in flight fail.
  void AbortUnended();
  // Returns whether any operation has neither ended nor failed. For the issuing thread only.
  bool HasUnended() const;
  // Returns the number of operations issued on a channel, which is the number of the next one. For
  // the issuing thread only.
  uint64_t Issued(int channel) const { return issued_[channel]; }

  // The backend's part: how an operation advances. All of these are called with the mutex held.
  //
  // Advances the first operation of a channel, and calls Complete at its end; may start later ones
  // (Pending) too. Returns whether anything advanced.
  virtual bool AdvanceFirst(int channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Returns whether every operation is only a copy: true in a group of one rank whose buffers are
  // CPU memory.
  virtual bool RunsAlone() const { return size() == 1; }
  // Returns whether posting the operation already does everything that peers need from this rank.
  virtual bool IsSmall(const Request& /*request*/) const { return false; }
  // Returns whether peers can see the first operation of a channel.
  virtual bool IsPosted(int /*channel*/) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return true;
  }
  // Returns 0 if the first operation of a channel does not wait for `rank`, and otherwise a number
  // by which ranks are ordered: those with the smallest number keep the others waiting.
  virtual int WaitsFor(int /*channel*/, int /*rank*/) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return 0;
  }
  // Fails the group if a peer has reported that it failed.
  virtual void CheckFailures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}
  // How a rank has departed. DepartureOf returns nullopt if the rank is still there.
  struct Departure {
    std::string what;  // "died" or "has left"
    std::string why;   // "closed the connection", or empty
  };
  virtual absl::optional<Departure> DepartureOf(int /*rank*/) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return absl::nullopt;
  }
  // Returns whether the process of a rank is suspended by a signal or a debugger.
  virtual bool IsStopped(int /*rank*/) const { return false; }
  // "rank 1 (process 4711 on node7, after 42 collectives)"
  virtual std::string RankName(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fails the group if the first operation of a channel has waited for too long, or cannot
  // continue.
  virtual void CheckChannel(int channel, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns a text such as ", after 4096 of 16384 bytes", or an empty one.
  virtual std::string Progress(int /*channel*/) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return "";
  }
  // Returns whether a thread that does not hold the mutex works on an operation, and so may use its
  // buffers. If the group fails meanwhile, its operations end when that thread calls
  // EndAfterFailure.
  virtual bool IsWorkedOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return false; }
  // Called when the group has failed; its operations no longer advance. When it returns, nothing
  // uses their buffers any more, unless the group overrides HasEnded or IsWorkedOn returns true. If
  // `is_first`, this rank failed first and reports `why` to its peers; if not, a peer has reported
  // it to this rank.
  virtual void OnFailure(const absl::Status& why, bool is_first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  // The functions below are for backends.
  double timeout_seconds() const { return timeout_seconds_; }
  bool is_ok() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return status_.ok(); }
  const absl::Status& status() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return status_; }
  bool IsEmpty(int channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queues_[channel] == nullptr || queues_[channel]->requests.empty();
  }
  // The operations of a channel that have not ended; IsEmpty(channel) must not hold.
  const std::deque<Request>& Pending(int channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return queues_[channel]->requests;
  }
  const Request& First(int channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Pending(channel).front();
  }
  // Returns how many operations of a channel have ended, which is the number of its first pending
  // one.
  uint64_t Done(int channel) const { return done_[channel].load(std::memory_order_acquire); }
  // Marks the first operation as ended.
  void Complete(int channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records that the first operation advanced, which restarts the time-out for its peers.
  void Moved(int channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { queues_[channel]->since = Now(); }
  // Returns the seconds since the first operation became the first, or last advanced.
  double Waited(int channel, Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::chrono::duration<double>(now - queues_[channel]->since).count();
  }
  // Records an event that WaitUntil may be waiting for.
  void NoteCompletion() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    engine_->AssertMutexHeld();
    engine_->Completed();
  }
  // Breaks the group, unless it has failed before: every operation that is in flight or issued
  // later ends with `why`. `is_first` as for OnFailure.
  void Fail(absl::Status why, bool is_first = true) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends all operations of a group that has failed.
  void EndAfterFailure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Describes the first operation of a channel, for messages: "all-reduce of 12 f32 (sum),
  // operation 3 of group 'world', after 4096 of 16384 bytes".
  std::string DescribeFirst(int channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  int ChannelOf(const Request& request) const {
    return request.operation == Operation::kSend      ? ChannelTo(request.peer)
           : request.operation == Operation::kReceive ? ChannelFrom(request.peer)
                                                      : 0;
  }
  int ChannelTo(int rank) const { return 1 + rank; }
  int ChannelFrom(int rank) const { return 1 + size() + rank; }
  // Returns the peer of a channel other than 0.
  int PeerOf(int channel) const { return (channel - 1) % size(); }
  bool IsToPeer(int channel) const { return channel > 0 && channel <= size(); }

  ProgressEngine* const engine_;
  Mutex& mutex_;  // the engine's

 private:
  struct Queue {
    std::deque<Request> requests;
    Time since;  // when the first one became the first, or last advanced
  };

  Time Now() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    engine_->AssertMutexHeld();
    return engine_->Now();
  }

  const double timeout_seconds_;
  std::vector<uint64_t> issued_;  // by channel; Submit of the engine writes it
  std::vector<std::unique_ptr<Queue>> queues_ ABSL_GUARDED_BY(mutex_);  // by channel
  std::unique_ptr<std::atomic<uint64_t>[]> done_;                       // by channel
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  // Then status_ is an error, and all operations have ended.
  std::atomic<bool> has_failed_ = false;
};

// The ranks that have the color of a rank, and the index of that rank among them.
struct SplitMembers {
  std::vector<int> ranks;
  int position = 0;
};
SplitMembers MembersOf(absl::Span<const int> colors, int rank);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_QUEUE_QUEUED_GROUP_H_
