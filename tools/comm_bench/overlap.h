// Times communication beside computation: how much of it is hidden, and how much computation is
// lost.
#ifndef TESSERA_TOOLS_COMM_BENCH_OVERLAP_H_
#define TESSERA_TOOLS_COMM_BENCH_OVERLAP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/world.h"
#include "tools/comm_bench/bench.h"

namespace tessera::comm {

// Medians of rounds. The shares are medians too, of what each round gives: a round is short, so a
// core that changes its speed from round to round hardly changes them. Times are in seconds, those
// of the slowest rank.
struct OverlapRow {
  std::string name = {};  // of the operation
  int64_t bytes = 0;
  double alone = 0;        // the operation, started and waited for
  double computation = 0;  // about as long, on one thread of each rank
  double in_sequence = 0;  // the operation is started and waited for, and then computation runs
  double both = 0;         // the operation is started, computation runs, and then it is waited for
  double hidden = 0;       // the share of the operation that took no time beside the computation
  double lost = 0;         // the share by which computation was slower beside the operation
  double both_to_sequence = 0;
};

// Communication that all ranks start and wait for: a collective, or anything to compare with one.
struct OverlappedOperation {
  std::function<void()> start;
  std::function<absl::Status()> wait;  // returns when what `start` began is over
};

// Collective. Each of `iterations` rounds times the operation, the computation, and the two in
// sequence and together. An operation of less than half a millisecond is repeated in a round.
// `world` is used between the timed parts.
absl::StatusOr<OverlapRow> TimeOverlap(World& world, const OverlappedOperation& operation,
                                       int warmups, int iterations);

// Collective. Times options.operations at all sizes. `first` and `second` are as for Bench;
// operations are in place if they can be.
absl::Status BenchOverlap(World& world, const BenchOptions& options, char* first, char* second,
                          const std::function<void(const OverlapRow& row)>& seen);

std::string OverlapHead();
std::string OverlapLine(const OverlapRow& row);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_COMM_BENCH_OVERLAP_H_
