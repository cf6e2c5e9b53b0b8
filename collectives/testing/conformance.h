// Every operation of a group, against what it should give: bit for bit against the order of
// collectives/reduce/reduce.h, and against a sum in double. Buffers are memory of the CPU; a
// backend of a GPU is checked behind a Communicator that copies (collectives/nccl/mirrored.h).
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
  // Of this rank, in which buffers lie by turns: two of the largest size in f64 and 192 bytes more.
  // Null: they are private memory.
  char* shared = nullptr;
  bool in_place = true;  // besides out of place
  // Where sums are taken within these sets of ranks first. Empty: the order is that of reduce.h.
  std::vector<std::vector<int>> hosts = {};
  // Sums of floats may have any order: only the sum in double is what they are held against.
  bool any_order = false;
};

// The first thing that is wrong.
absl::Status CheckOperations(Communicator& group, const ConformanceOptions& options);

// The same in the groups of a mesh of all ranks, the last axis of which runs fastest: those of
// every set of its axes. Then operations in flight on all of these.
absl::Status CheckMesh(Communicator& world, absl::Span<const int> shape,
                       const ConformanceOptions& options);

// Operations in flight, issued out of step on several groups.
absl::Status CheckOverlappingGroups(absl::Span<Communicator* const> groups, int operations,
                                    uint64_t seed, bool delays, bool any_order = false);

// Of two ranks that are threads, rank 1 issues operations for which it does not wait until rank 0
// has the result. It comes late by all times near that for which a backend's thread stays up after
// it had something to do. `*ended`: operations that ended on rank 0, from 0.
absl::Status CheckUnwaitedOperations(Communicator& pair, std::atomic<int>* ended);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_CONFORMANCE_H_
