// The queue of operations of a group: channels, tickets, completion, time-outs and failure. A
// backend derives from it, and supplies how an operation moves on.
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

// A group whose operations an engine moves on. Operations of one channel end in their order:
// channel 0 has the group's collectives, then there is one for the messages to each rank, then one
// for those from each rank. A backend may start an operation before the one before it has ended.
class QueuedGroup : public Communicator {
 public:
  using Time = ProgressEngine::Time;

  // The engine outlives the group. An operation waits for a peer for `timeout_seconds` at most.
  QueuedGroup(ProgressEngine* engine, std::string name, int rank, int size, double timeout_seconds);
  ~QueuedGroup() override = default;

  absl::Status Wait(Ticket ticket) override;
  bool Test(Ticket ticket) override;
  bool HasEnded(Ticket ticket) const override;
  CompletionSource* SourceOf(Ticket /*ticket*/) override { return engine_; }

  // The engine calls these.
  void AssertMutexHeld() ABSL_ASSERT_EXCLUSIVE_LOCK(mutex_) {}
  void TakeIn(ProgressEngine::Submission submission) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the first operation of each channel on. Returns whether any moved.
  bool Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves small operations on as far as they go now. Returns whether there may be more to do.
  virtual bool AdvanceSmall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether there are operations that move on without their rank's waiting for them.
  virtual bool NeedsThread() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasOperations() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether one of them takes longer than it takes to wake a thread.
  virtual bool HasLarge() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fails if a peer that is waited for has gone, or is too late. Called again and again.
  virtual void Check(Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

 protected:
  Ticket Start(const Request& request, const absl::Status& status) override;

  // Ends the group: operations in flight fail, on the peers too. The destructor of the derived
  // class calls it.
  void Leave();
  // The first half of it: operations in flight fail.
  void AbortUnended();
  // For the thread that issues: whether operations have neither ended nor failed.
  bool HasUnended() const;
  // For the thread that issues: the number of operations that were issued on a channel, which is
  // the number of the next one.
  uint64_t Issued(int channel) const { return issued_[channel]; }

  // How an operation moves on. All of these are called with the mutex held.
  //
  // Moves the first operation of a channel on, and calls Complete at its end; it may start later
  // ones (Pending) too. Returns whether anything moved.
  virtual bool AdvanceFirst(int channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;
  // Whether an operation is only a copy: in a group of one rank, if its buffers are memory of the
  // CPU.
  virtual bool RunsAlone() const { return size() == 1; }
  // Whether all that peers need of this rank is done when the operation is posted.
  virtual bool IsSmall(const Request& /*request*/) const { return false; }
  // Whether peers can see the first operation of a channel.
  virtual bool IsPosted(int /*channel*/) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return true;
  }
  // Returns 0 if the first operation of a channel does not wait for a rank. Otherwise returns a
  // number; the ranks with the smallest number delay the others.
  virtual int WaitsFor(int /*channel*/, int /*rank*/) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return 0;
  }
  // Fails if a peer has reported that it failed.
  virtual void CheckFailures() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {}
  // Returns nullopt if the rank has not gone.
  struct Departure {
    std::string what;  // "died" or "has left"
    std::string why;   // "closed the connection", or nothing
  };
  virtual absl::optional<Departure> DepartureOf(int /*rank*/) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return absl::nullopt;
  }
  virtual bool IsStopped(int /*rank*/) const { return false; }
  // "rank 1 (process 4711 on node7, after 42 collectives)"
  virtual std::string RankName(int rank) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Fails if the first operation of a channel has waited for too long, or cannot go on.
  virtual void CheckChannel(int channel, Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // ", after 4096 of 16384 bytes", or nothing.
  virtual std::string Progress(int /*channel*/) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return "";
  }
  // Called once the group has failed; no operation moves on afterwards. If `is_first`, this rank
  // reports the failure to its peers; otherwise a peer has reported it.
  virtual void OnFailure(const absl::Status& why, bool is_first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) = 0;

  // For backends.
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
  // Operations of a channel that have ended, which is the number of its first one.
  uint64_t Done(int channel) const { return done_[channel].load(std::memory_order_acquire); }
  // The first operation has ended.
  void Complete(int channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The first operation moved, and peers get their time again.
  void Moved(int channel) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { queues_[channel]->since = Now(); }
  // Seconds since the first operation became the first, or moved.
  double Waited(int channel, Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return std::chrono::duration<double>(now - queues_[channel]->since).count();
  }
  // Something has happened that WaitUntil may wait for.
  void NoteCompletion() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    engine_->AssertMutexHeld();
    engine_->Completed();
  }
  void Fail(absl::Status why, bool is_first = true) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // "all-reduce of 12 f32 (sum), operation 3 of group 'world', after 4096 of 16384 bytes"
  std::string Place(int channel) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  int ChannelOf(const Request& request) const {
    return request.operation == Operation::kSend      ? ChannelTo(request.peer)
           : request.operation == Operation::kReceive ? ChannelFrom(request.peer)
                                                      : 0;
  }
  int ChannelTo(int rank) const { return 1 + rank; }
  int ChannelFrom(int rank) const { return 1 + size() + rank; }
  // The peer of a channel other than 0.
  int PeerOf(int channel) const { return (channel - 1) % size(); }
  bool IsToPeer(int channel) const { return channel > 0 && channel <= size(); }

  ProgressEngine* const engine_;
  Mutex& mutex_;  // the engine's

 private:
  struct Queue {
    std::deque<Request> requests;
    Time since;  // when the first became the first, or moved
  };

  Time Now() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    engine_->AssertMutexHeld();
    return engine_->Now();
  }

  const double timeout_seconds_;
  std::vector<uint64_t> issued_;  // by channel; the engine's, for Submit
  std::vector<std::unique_ptr<Queue>> queues_ ABSL_GUARDED_BY(mutex_);  // by channel
  std::unique_ptr<std::atomic<uint64_t>[]> done_;                       // by channel
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> has_failed_ = false;  // then status_ is an error
};

// The ranks that have the color of a rank: theirs, and its own place among them.
struct SplitMembers {
  std::vector<int> ranks;
  int position = 0;
};
SplitMembers MembersOf(absl::Span<const int> colors, int rank);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_QUEUE_QUEUED_GROUP_H_
