// Communication within a group of ranks.
//
// An operation names its buffers, returns a ticket at once, and is waited for. Until it has been
// waited for, its input must not be written and its output neither read nor written. All ranks of a
// group issue the same collectives in the same order; groups are independent of each other, and so
// are the messages of one rank to another and the collectives of their group. Any number of
// operations may be in flight.
//
// Errors. A rank that requests something else than the others, dies, or does not come in time
// causes an error on all ranks of the group, which says what each rank requested or which rank is
// missing, and how far it came. Afterwards the group is broken: every operation that is issued or
// waited for returns that error again. No error aborts the process, and no wait is longer than the
// time-out and the group's grace period (time in which the process was stopped does not count).
//
// In place: all-reduce and broadcast with output == input; reduce-scatter with its output at the
// rank's own part of the input; all-gather with its input at the rank's own part of the output.
// Buffers that overlap otherwise are an error.
//
// Reductions have one order, that of collectives/reduce/reduce.h, on every CPU backend.
//
// Thread safety: one thread at a time issues operations of a group (and calls Split and the
// setters), because their order is the contract with the other ranks. At the same time any number
// of threads may wait for or test operations of it, and call Abort and traffic. Different groups
// may be used by different threads.
#ifndef TESSERA_COLLECTIVES_COMMUNICATOR_H_
#define TESSERA_COLLECTIVES_COMMUNICATOR_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/exchange.h"
#include "collectives/reduce/reduce.h"
#include "core/tensor/collective.h"
#include "core/tensor/dtype.h"

namespace tessera::comm {

using Operation = CollectiveOperation;
inline constexpr int kOperations = kCollectiveOperations;
inline absl::string_view OperationName(Operation operation) {
  return CollectiveOperationName(operation);
}

// Elements [begin, begin + size) of a buffer that is split into parts, one for each rank.
struct Part {
  int64_t begin = 0;
  int64_t size = 0;
};
// The part of a rank, if full parts have `part` elements: the last ones are shorter, or empty.
Part PartOf(int64_t count, int64_t part, int rank);

// An operation that a rank requests.
struct Request {
  Operation operation = Operation::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  int peer = 0;  // the root of a broadcast; the receiver of a send, the sender of a receive
  const void* input = nullptr;
  void* output = nullptr;
  // Elements of the full buffer: of the input and the output of all-reduce, broadcast, send,
  // receive and all-to-all, of the input of reduce-scatter, of the output of all-gather.
  int64_t count = 0;
  // Elements of a full part, for reduce-scatter, all-gather and all-to-all. There must be a part
  // for each rank: count <= part * size; of all-to-all, count == part * size.
  int64_t part = 0;
  // For a reduce-scatter whose results are reduced further: bf16 and f16 are put out as f32, which
  // is not rounded (and never in place).
  bool partial = false;
  // For an all-gather: elements of the output, in this rank's own part, that the rank does not
  // read. They may be left as they are. Ranks may differ in them.
  Part unread = {};
};

// "all-reduce of 12 f32 (sum)", "broadcast of 3 i64 from rank 1"
std::string Describe(const Request& request);

// An operation of a group that was issued.
struct Ticket {
  int channel = 0;      // 0: collectives; the others are a backend's own
  uint64_t number = 0;  // on that channel
};

// A ticket of no operation. It ends if its group fails, and Wait returns the reason.
inline constexpr Ticket kFailureTicket = {0, UINT64_MAX};

struct OperationCount {
  int64_t calls = 0;
  int64_t bytes_sent = 0;    // by this rank, to others
  int64_t bytes_staged = 0;  // copied, because a buffer is not in memory that peers reach
};
using Traffic = std::array<OperationCount, kOperations>;  // by Operation

// Is notified when an operation may have ended. Notify may be called by any thread.
class CompletionWatcher {
 public:
  virtual ~CompletionWatcher() = default;
  virtual void Notify() = 0;
};

// Moves operations on and knows when they end; several groups may share one.
class CompletionSource {
 public:
  virtual ~CompletionSource() = default;
  // Returns when `done`, which looks at operations of this source only, holds.
  virtual void WaitUntil(const std::function<bool()>& done) = 0;
  // Operations move on by themselves while they are watched.
  virtual void Watch(CompletionWatcher* watcher) = 0;
  virtual void Unwatch(CompletionWatcher* watcher) = 0;
};

class Communicator {
 public:
  Communicator(std::string name, int rank, int size)
      : name_(std::move(name)), rank_(rank), size_(size) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }  // within the group
  int size() const { return size_; }

  Ticket AllReduce(const void* input, void* output, int64_t count, DType dtype,
                   Reduction reduction = Reduction::kSum);
  // The output is this rank's part of the sum.
  Ticket ReduceScatter(const void* input, void* output, int64_t count, int64_t part, DType dtype,
                       Reduction reduction = Reduction::kSum);
  // The input is this rank's part of the output.
  Ticket AllGather(const void* input, void* output, int64_t count, int64_t part, DType dtype);
  // Part r of the input goes to rank r, where it becomes part `rank()` of the output.
  Ticket AllToAll(const void* input, void* output, int64_t part, DType dtype);
  // The input is read on the root only.
  Ticket Broadcast(const void* input, void* output, int64_t count, DType dtype, int root);
  Ticket Barrier();
  Ticket Send(const void* input, int64_t count, DType dtype, int to);
  Ticket Receive(void* output, int64_t count, DType dtype, int from);

  // Starts any of the above. Wait reports what is wrong with it.
  Ticket Issue(const Request& request);

  // This rank aborts: the others of the group learn why, and the group is broken. Any thread may
  // call it.
  void Abort(const absl::Status& why);

  // Returns when the operation has ended on this rank: the output is there, and no peer will touch
  // the buffers any more.
  virtual absl::Status Wait(Ticket ticket) = 0;
  // Whether Wait would return at once. Moves operations on, so polling it makes progress.
  virtual bool Test(Ticket ticket) = 0;
  // The same without moving anything on.
  virtual bool HasEnded(Ticket ticket) const = 0;

  // The group of the ranks that have this rank's color, in the order of their ranks here; null if
  // the color is negative. Collective: all ranks of this group pass the same colors, one for each
  // rank, and those of one color the same name. If they do not, all get an error, and this group
  // goes on.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::string_view name,
                                                      absl::Span<const int> colors);

  // How Split compares what the ranks pass: with operations of this group, unless its buffers
  // are not memory of the CPU.
  virtual Exchange SplitExchange();

  // Makes the group wait for running ranks this many seconds longer than the time-out. A group that
  // is part of another group gets a few seconds, because its ranks may be blocked on other ranks,
  // whose absence is to be reported first. With infinity, a wait ends only if a rank dies or is
  // stopped. Groups that Split makes begin without a grace period.
  virtual void set_grace_period(double seconds) { grace_period_ = seconds; }

  // Operations that were issued, and bytes so far.
  virtual Traffic traffic() const;

  // A remark for the user on the group; may be empty.
  virtual std::string note() const { return ""; }

  // Moves the operation on, and outlives it.
  virtual CompletionSource* SourceOf(Ticket ticket) = 0;

 protected:
  // Starts what has been checked; `status` says what is wrong with it.
  virtual Ticket Start(const Request& request, const absl::Status& status) = 0;
  // Split, with as many colors as there are ranks, which are the same on all of them.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                                  absl::Span<const int> colors) = 0;
  double grace_period() const { return grace_period_; }
  // Counts bytes that this rank sends to others.
  void CountSent(Operation operation, int64_t bytes) {
    counts_[static_cast<size_t>(operation)].bytes_sent.fetch_add(bytes, std::memory_order_relaxed);
  }

  void CountStaged(Operation operation, int64_t bytes) {
    counts_[static_cast<size_t>(operation)].bytes_staged.fetch_add(bytes,
                                                                   std::memory_order_relaxed);
  }

 private:
  struct Count {
    std::atomic<int64_t> calls = 0, bytes_sent = 0, bytes_staged = 0;
  };

  const std::string name_;
  const int rank_, size_;
  std::array<Count, kOperations> counts_;  // by Operation
  std::atomic<double> grace_period_ = 0;
};

// An operation in flight of any group.
struct PendingOperation {
  Communicator* group = nullptr;
  Ticket ticket;
};
// Returns the index of an operation that has ended, when there is one; Wait returns at once for it,
// with its status. There must be one operation at least.
size_t WaitAny(absl::Span<const PendingOperation> operations);

// An exchange among the ranks of a group. Small texts only, of up to 64 KiB.
Exchange ExchangeOver(Communicator* communicator);

// Returns an error if the request is wrong by itself on this rank.
absl::Status CheckRequest(const Request& request, int rank, int size);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_COMMUNICATOR_H_
