// Formulas for the traffic of groups in which every rank sends directly to every other: within a
// host, and over TCP.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_LAYOUT_TRAFFIC_PEER_TRAFFIC_H_
#define TESSERA_CORE_LAYOUT_TRAFFIC_PEER_TRAFFIC_H_

#include <algorithm>
#include <cstdint>

#include "core/layout/traffic/collective_call.h"

namespace tessera {

// An all-reduce's input of up to this size is sent to all other ranks together with the request.
inline constexpr int64_t kEagerBytes = 16384;

// Returns the elements of a rank's part of a buffer of `count` elements.
inline int64_t PartSize(int64_t count, int64_t part, int rank) {
  return std::clamp<int64_t>(count - rank * part, 0, part);
}

// Calls add(elements, times) for the parts of up to `size` elements into which a buffer of `count`
// is divided: for the full ones, and for the last one if it is shorter.
template <typename Add>
void ForEachSize(int64_t count, int64_t size, const Add& add) {
  if (count <= 0 || size <= 0) return;
  if (count >= size) add(size, count / size);
  if (count % size > 0) add(count % size, 1);
}

// Returns the elements of a full part of an all-reduce. Parts start at multiples of 64 elements.
inline int64_t AllReducePart(int64_t count, int ranks) {
  return ((count + ranks - 1) / ranks + 63) / 64 * 64;
}

// Returns the number of elements that a rank sends.
inline int64_t PeerElements(const CollectiveCall& call, int rank, int ranks, int64_t eager_bytes) {
  const bool all_reduce = call.operation == CollectiveOperation::kAllReduce;
  if (all_reduce && call.count * SizeOf(call.dtype) <= eager_bytes) {
    return call.count * (ranks - 1);
  }
  const int64_t part = all_reduce ? AllReducePart(call.count, ranks) : call.part;
  const int64_t own = PartSize(call.count, part, rank);
  if (call.operation == CollectiveOperation::kAllGather) return own * (ranks - 1);
  return call.count - own + (all_reduce ? own * (ranks - 1) : 0);
}

inline int64_t PeerSteps(const CollectiveCall& call) {
  const bool two = call.operation == CollectiveOperation::kAllReduce &&
                   call.count * SizeOf(call.dtype) > kEagerBytes;
  return two ? 2 : 1;
}

}  // namespace tessera

#endif  // TESSERA_CORE_LAYOUT_TRAFFIC_PEER_TRAFFIC_H_
