// Communication within a group of ranks.
//
// An operation names its buffers, returns at once with a ticket, and is waited for. Until it has
// been waited for, its input must not be written and its output neither read nor written. All ranks
// of a group issue the same collectives in the same order; groups are independent of each other,
// and so are the sends of one rank to another and the collectives of their group.
//
// Errors. A rank that asks for something else than the others, dies, or does not come in time gives
// an error to all of the group, which says what each wanted or who is missing, and how far it came.
// Afterwards the group is broken: all that is issued or waited for gives that error again. Nothing
// ever aborts, and no wait is longer than the time-out.
//
// In place: all-reduce and broadcast with output == input; reduce-scatter with its output at the
// rank's own part of the input; all-gather with its input at the rank's own part of the output.
// Buffers that overlap otherwise are an error.
//
// Reductions have one order, that of collectives/reduce/reduce.h, on every CPU backend.
//
// Thread safety: a group is used by one thread at a time; different groups by different threads.
#ifndef TESSERA_COLLECTIVES_COMMUNICATOR_H_
#define TESSERA_COLLECTIVES_COMMUNICATOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/exchange.h"
#include "collectives/reduce/reduce.h"
#include "core/tensor/dtype.h"

namespace tessera::comm {

enum class Operation : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kBarrier,
  kSend,
  kReceive,
};
inline constexpr int kOperations = 8;

// "all-reduce", ...
absl::string_view OperationName(Operation operation);

// Elements [begin, begin + size) of a buffer that is cut into parts for ranks.
struct Part {
  int64_t begin = 0;
  int64_t size = 0;
};
// The part of a rank, where whole parts have `part` elements: the last ones are shorter, or empty.
Part PartOf(int64_t count, int64_t part, int rank);

// What a rank asks for.
struct Request {
  Operation operation = Operation::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  int peer = 0;  // the root of a broadcast; to whom to send, from whom to receive
  const void* input = nullptr;
  void* output = nullptr;
  // Elements of the whole buffer: of the input and the output of all-reduce, broadcast, send,
  // receive and all-to-all, of the input of reduce-scatter, of the output of all-gather.
  int64_t count = 0;
  // Elements of a whole part, for reduce-scatter, all-gather and all-to-all. There must be a part
  // for each rank: count <= part * size; of all-to-all, count == part * size.
  int64_t part = 0;
  // Of a reduce-scatter whose results are reduced further: bf16 and f16 are put out as f32, which
  // is not rounded (and never in place).
  bool partial = false;
};

// "all-reduce of 12 f32 (sum)", "broadcast of 3 i64 from rank 1"
std::string Describe(const Request& request);

// An operation of a group that was issued.
struct Ticket {
  int channel = 0;      // 0: collectives; the others are a backend's own
  uint64_t number = 0;  // on that channel
};

struct OperationCount {
  int64_t calls = 0;
  int64_t bytes_sent = 0;  // by this rank, to others
};
using Traffic = std::array<OperationCount, kOperations>;  // by Operation

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

  // Starts any of the above. What is wrong with it is said by Wait.
  Ticket Issue(const Request& request);

  // This rank gives up: the others of the group are told why, and the group is broken. Any thread
  // may call it.
  void Abort(const absl::Status& why);

  // Returns when the operation has ended on this rank: the output is there, and no peer will touch
  // the buffers any more.
  virtual absl::Status Wait(Ticket ticket) = 0;
  // Whether Wait would return at once. Moves operations on, so polling it makes progress.
  virtual bool Test(Ticket ticket) = 0;

  // The group of those whose color is this rank's, in the order of their ranks here; null where it
  // is negative. Collective: all ranks of this group give the same colors, one for each rank.
  absl::StatusOr<std::unique_ptr<Communicator>> Split(absl::string_view name,
                                                      absl::Span<const int> colors);

  // Of a group of which another is made: it waits so much longer than the time-out, for its ranks
  // may themselves wait for others elsewhere, who are to be blamed first.
  void set_patience(double seconds) { patience_ = seconds; }

  // Of the operations that have been waited for; while others are in flight, not to be read.
  const Traffic& traffic() const { return traffic_; }

  // What the user should know of the group; may be empty.
  virtual std::string note() const { return ""; }

  // For tests: what this rank does instead at its n-th operation, counted from 1.
  struct Fault {
    int64_t operation = 0;
    double delay_seconds = 0;  // before it issues it
    bool fails = false;        // it gives up
  };
  void InjectFault(const Fault& fault) { fault_ = fault; }
  // For tests: pauses of up to a fraction of a millisecond before operations, which follow from the
  // seed, the rank and the group; 0: none. Groups made by Split get them too.
  void PermuteTiming(uint64_t seed) { timing_seed_ = seed; }

 protected:
  // Starts what has been checked; `status` says what is wrong with it.
  virtual Ticket Start(const Request& request, const absl::Status& status) = 0;
  // Split, of as many colors as there are ranks.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                                  absl::Span<const int> colors) = 0;
  double patience() const { return patience_; }
  // Counts what this rank sends to others.
  void CountSent(Operation operation, int64_t bytes) {
    traffic_[static_cast<size_t>(operation)].bytes_sent += bytes;
  }

 private:
  const std::string name_;
  const int rank_, size_;
  Traffic traffic_ = {};
  int64_t issued_ = 0;
  Fault fault_;
  uint64_t timing_seed_ = 0;
  double patience_ = 0;
};

// An exchange among the ranks of a group. Small texts only, of up to 64 KiB.
Exchange ExchangeOver(Communicator* communicator);

// What is wrong with a request on this rank, by itself.
absl::Status CheckRequest(const Request& request, int rank, int size);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_COMMUNICATOR_H_
