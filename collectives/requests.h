// What follows from a request, for backends.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_REQUESTS_H_
#define TESSERA_COLLECTIVES_REQUESTS_H_

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "collectives/reduce/reduce.h"

namespace tessera::comm {

// Whether a buffer is cut into parts for ranks.
inline bool IsCut(Operation operation) {
  return operation == Operation::kReduceScatter || operation == Operation::kAllGather ||
         operation == Operation::kAllToAll;
}

// What a rank wants, for others to read.
struct Wish {
  Operation operation = Operation::kBarrier;
  DType dtype = DType::kF32;
  Reduction reduction = Reduction::kSum;
  uint8_t partial = 0;  // 1: Request::partial
  int32_t peer = 0;
  int64_t count = 0, part = 0;
  bool operator==(const Wish& other) const = default;
};
static_assert(sizeof(Wish) == 24, "no byte of it is undefined");
// Whether it is one, and not just bytes that a peer has sent.
bool IsWish(const Wish& wish);
Wish WishOf(const Request& request);
Request RequestOf(const Wish& wish);

// "the ranks of group 'world' disagree on operation 7: rank 0 wants barrier, rank 2 wants ...",
// where ranks[i] wants wishes[i], whatever bytes these are; of a message the operation has no
// number, which is 0.
absl::Status Disagreement(absl::string_view group, uint64_t number, absl::Span<const int> ranks,
                          absl::Span<const Wish> wishes);

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
// are the ranks' elements of these. `past_caches` as for Reduce.
inline void ReduceOwnPart(const Request& request, absl::Span<const void* const> inputs,
                          int64_t position, int64_t count, bool past_caches = false) {
  if (request.partial) {
    char* const output = Bytes(request.output, position * SizeOf(PartialDType(request.dtype)));
    ReducePartially(inputs, output, count, request.dtype, request.reduction);
  } else {
    char* const output = Bytes(request.output, position * SizeOf(request.dtype));
    Reduce(inputs, {output}, count, request.dtype, request.reduction, past_caches);
  }
}

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_REQUESTS_H_
