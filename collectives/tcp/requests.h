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

inline RequestDescriptor DescriptorOf(const Header& header) {
  return {header.operation, header.dtype, header.reduction, header.partial,
          header.peer,      header.count, header.part};
}

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_REQUESTS_H_
