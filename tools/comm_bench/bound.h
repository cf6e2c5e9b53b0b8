// The least time that an operation can take on ranks of one host: the bytes that must be read and
// written, over what the machine's memory gives to as many ranks at once.
#ifndef TESSERA_TOOLS_COMM_BENCH_BOUND_H_
#define TESSERA_TOOLS_COMM_BENCH_BOUND_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"

namespace tessera {

// Bytes that all ranks together must read and write, each buffer being in memory of one rank:
//
//   all-reduce      reads W inputs, writes W outputs
//   reduce-scatter  reads W inputs, writes W parts
//   all-gather      reads W - 1 parts, and out of place the own part too, on each rank; writes them
//   all-to-all      reads and writes each input
//   broadcast       reads the input, and writes it on W - 1 ranks, out of place on W
//   send            reads and writes a buffer for each rank
//
// `bytes` is the size of the whole buffer.
double BytesMoved(Operation operation, int64_t bytes, int ranks, bool in_place);

// Bytes a second, read and written, that all ranks of the group reach together, from the first
// one's start to the last one's end: the best of several runs of an update in place and of a copy,
// over memory far larger than caches. Collective.
absl::StatusOr<double> MeasureMemory(Communicator& group);

}  // namespace tessera

#endif  // TESSERA_TOOLS_COMM_BENCH_BOUND_H_
