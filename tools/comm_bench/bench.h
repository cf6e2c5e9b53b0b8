// Times operations of a group, as nccl-tests does: sizes, algbw, busbw.
#ifndef TESSERA_TOOLS_COMM_BENCH_BENCH_H_
#define TESSERA_TOOLS_COMM_BENCH_BENCH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"
#include "collectives/world.h"

namespace tessera::comm {

struct BenchOptions {
  std::vector<Operation> operations;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  int root = 0;
  int64_t first_bytes = 8, last_bytes = int64_t{128} << 20;
  double factor = 2;
  int warmups = 5;
  int iterations = 20;
  bool check = true;
  bool bound = false;  // time memory beside each operation
};

struct Timing {
  double seconds = 0;
  double algbw = 0, busbw = 0;  // bytes a second
  int64_t wrong = 0;            // elements; -1: not checked
  double bound = 0;             // seconds, the lower bound (bound.h); 0: not timed, or in caches
};

// A row of the table. Sizes are those of nccl-tests: of the full buffer. A barrier has none.
struct BenchRow {
  Operation operation;
  int64_t bytes = 0, count = 0;
  bool has_in_place = false;
  Timing out_of_place, in_place;
};

// Returns the size in bytes of each of the two buffers that Bench needs.
int64_t BufferBytes(const BenchOptions& options, int ranks);

// Collective. Reports the longest time of all ranks, and the sum of their wrong elements; both are
// exchanged over the CPU. Buffers are memory of the CPU, or were allocated by `world`. `seen` is
// called with each row when it is complete.
absl::Status Bench(World& world, const BenchOptions& options, char* first, char* second,
                   const std::function<void(const BenchRow& row)>& seen);

// Returns busbw / algbw, as nccl-tests defines them.
double BusFactor(Operation operation, int ranks);

// Return the head of the table, and a row of it; with options.bound also the share of the bound
// that the row reaches.
std::string TableHead(const BenchOptions& options);
std::string TableRow(const BenchRow& row, const BenchOptions& options);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_COMM_BENCH_BENCH_H_
