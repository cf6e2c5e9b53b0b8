// What follows from a request, for backends.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_REQUESTS_H_
#define TESSERA_COLLECTIVES_REQUESTS_H_

#include <cstdint>
#include <cstring>

#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/reduce/reduce.h"

namespace tessera {

// Whether a buffer is cut into parts for ranks.
inline bool IsCut(Operation operation) {
  return operation == Operation::kReduceScatter || operation == Operation::kAllGather ||
         operation == Operation::kAllToAll;
}

// Whether two ranks want the same collective.
inline bool SameCollective(const Request& a, const Request& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.peer == b.peer && a.count == b.count && a.part == b.part && a.partial == b.partial;
}

// Elements that a rank gives to an operation.
inline int64_t InputElements(const Request& request, int rank) {
  switch (request.operation) {
    case Operation::kAllGather:
      return PartOf(request.count, request.part, rank).size;
    case Operation::kBroadcast:
      return rank == request.peer ? request.count : 0;
    case Operation::kReceive:
    case Operation::kBarrier:
      return 0;
    default:
      return request.count;
  }
}

// Elements of a whole part of an all-reduce, of which each rank reduces one: they start at
// multiples of a line, so that no two ranks write to the same.
inline int64_t AllReducePart(int64_t count, int ranks) {
  constexpr int64_t kGrain = 64;
  return ((count + ranks - 1) / ranks + kGrain - 1) / kGrain * kGrain;
}

inline const char* Bytes(const void* data, int64_t offset) {
  return static_cast<const char*>(data) + offset;
}
inline char* Bytes(void* data, int64_t offset) { return static_cast<char*>(data) + offset; }

inline void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// Puts out `count` elements of a reduce-scatter, from `position` of the rank's part on; `inputs`
// are the ranks' elements of these.
inline void ReduceOwnPart(const Request& request, absl::Span<const void* const> inputs,
                          int64_t position, int64_t count) {
  if (request.partial) {
    char* const output = Bytes(request.output, position * SizeOf(PartialDType(request.dtype)));
    ReducePartially(inputs, output, count, request.dtype, request.reduction);
  } else {
    char* const output = Bytes(request.output, position * SizeOf(request.dtype));
    Reduce(inputs, {output}, count, request.dtype, request.reduction);
  }
}

}  // namespace tessera

#endif  // TESSERA_COLLECTIVES_REQUESTS_H_
