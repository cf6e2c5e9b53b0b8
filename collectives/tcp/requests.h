// Quantities that are derived from a request alone.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_TCP_REQUESTS_H_
#define TESSERA_COLLECTIVES_TCP_REQUESTS_H_

#include <cstdint>

#include "collectives/requests.h"
#include "collectives/tcp/message.h"

namespace tessera::comm::tcp {

// Returns whether all data for a peer are sent together with the request.
inline bool IsEager(const Request& request) {
  return (HasParts(request.operation) ? request.part : request.count) * SizeOf(request.dtype) <=
         kEagerBytes;
}

// Returns the elements of rank `from`'s input that are sent with its request to rank `to`.
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

inline RequestDescriptor DescriptorOf(const Header& header) {
  return {header.operation, header.dtype, header.reduction, header.partial,
          header.peer,      header.count, header.part};
}

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_REQUESTS_H_
