// Communication within a group of ranks.
//
// A call that issues an operation returns a ticket at once; Wait returns when the operation has
// ended. Until then the caller must not write the input, and neither read nor write the output. All
// ranks of a group issue the same collectives in the same order; groups are independent of each
// other. The messages from one rank to another need no order relative to the collectives of their
// group. Any number of operations may be in flight.
//
// Errors. If a rank dies, is late, or requests something else than the others, all ranks of the
// group get an error. It says what each rank requested, or which rank is missing and how far it
// came. Afterwards the group is broken: every operation that is issued or waited for returns that
// error again. No error aborts the process, and no wait is longer than the time-out and the group's
// grace period (time in which the process was stopped does not count).
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
// Returns the part of `rank` in a buffer of `count` elements that is split into parts of `part`
// elements. The last parts are shorter, or empty.
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
  // Elements of one rank's full part, for reduce-scatter, all-gather and all-to-all: PartOf(count,
  // part, r) is that of rank r. The parts must cover the buffer: count <= part * size; of
  // all-to-all, count == part * size.
  int64_t part = 0;
  // For a reduce-scatter whose results are reduced further: the output of bf16 and f16 is f32,
  // unrounded. Never in place.
  bool partial = false;
  // For an all-gather: elements of the output, in this rank's own part, that the rank does not
  // read. The operation need not write them. Each rank may pass another range.
  Part unread = {};
};

// "all-reduce of 12 f32 (sum)", "broadcast of 3 i64 from rank 1"
std::string Describe(const Request& request);

// Identifies an operation that was issued in a group.
struct Ticket {
  int channel = 0;      // 0: collectives; the others are a backend's own
  uint64_t number = 0;  // on that channel
};

// A ticket that belongs to no operation. It ends only if its group fails; Wait then returns the
// reason.
inline constexpr Ticket kFailureTicket = {0, UINT64_MAX};

struct OperationCount {
  int64_t calls = 0;
  int64_t bytes_sent = 0;    // by this rank, to others
  int64_t bytes_staged = 0;  // copied because a buffer is in memory that peers cannot reach
};
using Traffic = std::array<OperationCount, kOperations>;  // by Operation

// The contents of a group's buffers. If digests cover only control between hosts
// (collectives/net/integrity.h), they cover the buffers of a group of control, and not those of one
// of tensors. Only the backends tcp and hierarchical make this difference.
enum class Contents {
  kTensors,
  kControl,  // values on which ranks agree, such as requests, Plans and errors
};

// Interface that is notified when an operation may have ended. Any thread may call Notify.
class CompletionWatcher {
 public:
  virtual ~CompletionWatcher() = default;
  virtual void Notify() = 0;
};

// Advances operations and knows when they end. Several groups may share one source.
class CompletionSource {
 public:
  virtual ~CompletionSource() = default;
  // Returns when `done` returns true. `done` may look only at operations of this source.
  virtual void WaitUntil(const std::function<bool()>& done) = 0;
  // While at least one watcher is registered, operations make progress without any call.
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

  // The counts below are numbers of elements. `input_count` or `output_count` is that of the full
  // buffer (Request::count), and `part_count` that of one rank's full part of it (Request::part).
  // If parts are of equal size, the first is the second times size().

  Ticket AllReduce(const void* input, void* output, int64_t count, DType dtype,
                   Reduction reduction = Reduction::kSum);
  // `output` receives this rank's part of the sum: up to `part_count` elements.
  Ticket ReduceScatter(const void* input, void* output, int64_t input_count, int64_t part_count,
                       DType dtype, Reduction reduction = Reduction::kSum);
  // `input` is this rank's part of the output: up to `part_count` elements.
  Ticket AllGather(const void* input, void* output, int64_t output_count, int64_t part_count,
                   DType dtype);
  // Sends part r of the input to rank r, which stores it as part `rank()` of its output. Both have
  // `part_count` times size() elements.
  Ticket AllToAll(const void* input, void* output, int64_t part_count, DType dtype);
  // The input is read on the root only.
  Ticket Broadcast(const void* input, void* output, int64_t count, DType dtype, int root);
  Ticket Barrier();
  Ticket Send(const void* input, int64_t count, DType dtype, int to);
  Ticket Receive(void* output, int64_t count, DType dtype, int from);

  // Starts any of the operations above. If the request is invalid, Wait returns the error. Does not
  // wait for other ranks, nor for threads that advance operations. (NCCL: the first message to a
  // rank makes an id, which may take long.)
  Ticket Issue(const Request& request);

  // Aborts this rank: reports `why` to the other ranks and breaks the group. Any thread may call
  // it.
  void Abort(const absl::Status& why);

  // Returns when the operation has ended on this rank: the output is complete, and no peer will
  // access the buffers any more.
  virtual absl::Status Wait(Ticket ticket) = 0;
  // Returns whether Wait would return at once. Also advances operations, so polling it makes
  // progress.
  virtual bool Test(Ticket ticket) = 0;
  // The same, without advancing any operation.
  virtual bool HasEnded(Ticket ticket) const = 0;

  // Returns the group of the ranks that have this rank's color, in the order of their ranks here;
  // null if this rank's color is negative. Collective: all ranks pass the same `colors` (one per
  // rank), and ranks of one color pass the same name. If they do not, all get an error, and this
  // group stays usable. A group that is split from one of control is one of control too.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::string_view name,
                                                      absl::Span<const int> colors,
                                                      Contents contents = Contents::kTensors);

  // Returns the exchange by which Split compares the arguments of the ranks. By default it uses
  // operations of this group; a backend whose buffers are not CPU memory overrides it.
  virtual Exchange SplitExchange();

  // Makes the group wait `seconds` longer than the time-out for ranks that are running. A group
  // that is part of another one needs a few seconds: its ranks may be waiting for ranks of another
  // host, whose absence should be reported first. With infinity, only a rank that dies or is
  // stopped ends a wait. Groups made by Split do not inherit it.
  virtual void set_grace_period(double seconds) { grace_period_ = seconds; }

  // Returns the operations issued and the bytes sent and staged so far.
  virtual Traffic traffic() const;

  // Returns a remark about the group for the user; may be empty.
  virtual std::string note() const { return ""; }

  // Returns the source that advances the operation. It outlives the operation.
  virtual CompletionSource* SourceOf(Ticket ticket) = 0;

 protected:
  // Starts a request that has been checked; `status` is the result of the check.
  virtual Ticket Start(const Request& request, const absl::Status& status) = 0;
  // Does the work of Split after the check: `colors` has one color per rank and is the same on all
  // ranks.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                                  absl::Span<const int> colors,
                                                                  Contents contents) = 0;
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

// An operation in flight, of any group.
struct PendingOperation {
  Communicator* group = nullptr;
  Ticket ticket;
};
// Waits until one of `operations` has ended, and returns its index. Wait then returns its status at
// once. `operations` must not be empty.
size_t WaitAny(absl::Span<const PendingOperation> operations);

// Returns an exchange among the ranks of a group, for texts of up to 64 KiB.
Exchange ExchangeOver(Communicator* communicator);

// Returns an error if the request is wrong by itself on this rank.
absl::Status CheckRequest(const Request& request, int rank, int size);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_COMMUNICATOR_H_
