// Quantities that are derived from a request alone.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_SHM_REQUESTS_H_
#define TESSERA_COLLECTIVES_SHM_REQUESTS_H_

#include <cstdint>

#include "collectives/requests.h"
#include "collectives/shm/group.h"

namespace tessera::comm::shm {

// Returns the bytes that the request would send through a slot.
inline int64_t SlotBytes(const Request& request) {
  const int64_t elements =
      request.operation == Operation::kAllGather ? request.part : request.count;
  return elements * SizeOf(request.dtype);
}

inline bool IsEager(const Request& request) { return SlotBytes(request) <= kSlotBytes; }

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_REQUESTS_H_
