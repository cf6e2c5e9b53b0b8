// What follows from a request alone.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_SHM_REQUESTS_H_
#define TESSERA_COLLECTIVES_SHM_REQUESTS_H_

#include <cstdint>
#include <cstring>

#include "collectives/communicator.h"
#include "collectives/shm/group.h"

namespace tessera::shm {

// Bytes that go through a slot, if they fit.
inline int64_t SlotBytes(const Request& request) {
  const int64_t elements =
      request.operation == Operation::kAllGather ? request.part : request.count;
  return elements * SizeOf(request.dtype);
}

inline bool IsEager(const Request& request) { return SlotBytes(request) <= kSlotBytes; }

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

inline void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

inline Request RequestOf(const Wanted& wanted) {
  Request request;
  request.operation = wanted.operation;
  request.dtype = wanted.dtype;
  request.reduction = wanted.reduction;
  request.peer = wanted.peer;
  request.count = wanted.count;
  request.part = wanted.part;
  return request;
}

inline bool SameWish(const Wanted& a, const Wanted& b) {
  return a.operation == b.operation && a.dtype == b.dtype && a.reduction == b.reduction &&
         a.peer == b.peer && a.count == b.count && a.part == b.part;
}

}  // namespace tessera::shm

#endif  // TESSERA_COLLECTIVES_SHM_REQUESTS_H_
