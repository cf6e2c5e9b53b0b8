// Quantities that are derived from a request alone.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_NCCL_REQUESTS_H_
#define TESSERA_COLLECTIVES_NCCL_REQUESTS_H_

#include <cstdint>

#include "collectives/requests.h"

namespace tessera::comm::nccl {

// Whether the parts of all ranks have the same size.
inline bool HasEqualParts(const Request& request, int size) {
  return request.count == request.part * size;
}

// Returns the bytes that a rank sends if data travel around a ring.
inline int64_t BytesSent(const Request& request, int rank, int size) {
  const int64_t count = request.count;
  const int64_t own = HasParts(request.operation) ? PartOf(count, request.part, rank).size : 0;
  int64_t elements = 0;
  switch (request.operation) {
    case Operation::kAllReduce: {
      const int64_t share = PartOf(count, AllReducePart(count, size), rank).size;
      elements = count - share + share * (size - 1);
      break;
    }
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      elements = count - own;
      break;
    case Operation::kAllGather:
      elements = own * (size - 1);
      break;
    case Operation::kBroadcast:
      elements = (rank + 1) % size == request.peer ? 0 : count;
      break;
    case Operation::kSend:
      elements = count;
      break;
    case Operation::kReceive:
    case Operation::kBarrier:
      break;
  }
  return elements * SizeOf(request.dtype);
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_REQUESTS_H_
