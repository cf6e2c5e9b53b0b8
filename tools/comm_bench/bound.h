// A lower bound on the time of an operation on ranks of one host: the bytes that must be read and
// written, divided by the rate at which so many ranks together can access the machine's memory.
#ifndef TESSERA_TOOLS_COMM_BENCH_BOUND_H_
#define TESSERA_TOOLS_COMM_BENCH_BOUND_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace tessera::comm {

// Returns the bytes that all ranks together must read and write; each buffer is in memory of one
// rank:
//
//   all-reduce      reads W inputs, writes W outputs
//   reduce-scatter  reads W inputs, writes W parts
//   all-gather      reads W - 1 parts, and out of place the own part too, on each rank; writes them
//   all-to-all      reads and writes each input
//   broadcast       reads the input, and writes it on W - 1 ranks, out of place on W
//   send            reads and writes a buffer for each rank
//
// `bytes` is the size of the full buffer.
double BytesMoved(Operation operation, int64_t bytes, int ranks, bool in_place);

// Measures the rate of memory: each rank adds to every element of 64 MiB of its own, which caches
// seldom hold, interleaving four pages. On a shared machine, or one that migrates its virtual
// cores, the rate changes from second to second, so a share of the bound is reliable only if passes
// are timed alternately with the operation.
class MemoryPass {
 public:
  static absl::StatusOr<MemoryPass> Create(Communicator& group);

  // Runs a pass on all ranks, and returns when all have ended. Collective.
  absl::Status Run();

  // Returns the bytes that all ranks together read and write in a pass.
  double bytes() const;

 private:
  using Values = std::unique_ptr<float[], void (*)(float*)>;

  MemoryPass(Communicator& group, Values values) : group_(&group), values_(std::move(values)) {}

  Communicator* group_;
  Values values_;
};

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_COMM_BENCH_BOUND_H_
