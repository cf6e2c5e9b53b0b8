// What follows from a request alone.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_TCP_REQUESTS_H_
#define TESSERA_COLLECTIVES_TCP_REQUESTS_H_

#include <cstdint>
#include <cstring>

#include "collectives/communicator.h"
#include "collectives/tcp/message.h"

namespace tessera::tcp {

inline bool IsCut(const Request& request) {
  return request.operation == Operation::kReduceScatter ||
         request.operation == Operation::kAllGather || request.operation == Operation::kAllToAll;
}

// Whether all that a peer gets goes with the wish.
inline bool IsEager(const Request& request) {
  return (IsCut(request) ? request.part : request.count) * SizeOf(request.dtype) <= kEagerBytes;
}

// The elements of a rank's input that go with its wish to another.
inline Part EagerPart(const Request& request, int from, int to) {
  switch (request.operation) {
    case Operation::kAllReduce:
      return {0, request.count};
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return PartOf(request.count, request.part, to);
    case Operation::kAllGather:
      return {0, PartOf(request.count, request.part, from).size};
    case Operation::kBroadcast:
      return {0, from == request.peer ? request.count : 0};
    default:
      return {};
  }
}

inline const char* Bytes(const void* data, int64_t offset) {
  return static_cast<const char*>(data) + offset;
}
inline char* Bytes(void* data, int64_t offset) { return static_cast<char*>(data) + offset; }

inline void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

inline Request RequestOf(const Header& wish) {
  Request request;
  request.operation = wish.operation;
  request.dtype = wish.dtype;
  request.reduction = wish.reduction;
  request.peer = wish.peer;
  request.count = wish.count;
  request.part = wish.part;
  return request;
}

inline bool SameWish(const Header& wish, const Request& request) {
  return wish.operation == request.operation && wish.dtype == request.dtype &&
         wish.reduction == request.reduction && wish.peer == request.peer &&
         wish.count == request.count && wish.part == request.part;
}

}  // namespace tessera::tcp

#endif  // TESSERA_COLLECTIVES_TCP_REQUESTS_H_
