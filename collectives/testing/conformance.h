// Checks every operation of a group: bit for bit against the order of reduction of
// collectives/reduce/reduce.h, and against a sum in double. Buffers are CPU memory; a GPU backend
// is checked behind a Communicator that copies (collectives/nccl/mirrored.h).
//
// All ranks of a group call the same function with the same options; each checks its own results.
#ifndef TESSERA_COLLECTIVES_TESTING_CONFORMANCE_H_
#define TESSERA_COLLECTIVES_TESTING_CONFORMANCE_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"

namespace tessera::comm {

struct ConformanceOptions {
  std::vector<int64_t> sizes = {0, 1, 2, 7, 63, 64, 65, 1000, 4097};
  std::vector<int64_t> large_sizes = {16384, 50001};  // of f32 and bf16
  std::vector<DType> dtypes = {std::begin(kAllDTypes), std::end(kAllDTypes)};
  // This rank's memory for two buffers of the largest size in f64, and 192 bytes more. Null:
  // buffers are private memory.
  char* shared = nullptr;
  bool in_place = true;  // besides out of place
  // The sets of ranks within which sums are computed first. Empty: the order is that of reduce.h.
  std::vector<std::vector<int>> hosts = {};
  // Sums of floats may have any order: they are compared with the sum in double only.
  bool any_order = false;
};

// Returns the first error that it finds.
absl::Status CheckOperations(Communicator& group, const ConformanceOptions& options);

// Checks the groups of every set of axes of a mesh of all ranks, whose last axis runs fastest. Then
// checks operations in flight on all of these groups.
absl::Status CheckMesh(Communicator& world, absl::Span<const int> shape,
                       const ConformanceOptions& options);

// Checks operations in flight on several groups; each rank issues them at different times.
absl::Status CheckOverlappingGroups(absl::Span<Communicator* const> groups, int operations,
                                    uint64_t seed, bool delays, bool any_order = false);

// Checks a pair of ranks that are threads. Rank 1 issues operations, and waits for each only after
// rank 0 has its result. Its delays cover times around that for which a backend's thread polls
// after it had work. *ended, initially 0, counts operations that ended on rank 0.
absl::Status CheckUnwaitedOperations(Communicator& pair, std::atomic<int>* ended);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_CONFORMANCE_H_
