// The format of messages on a connection: a header, then as many bytes as it announces.
#ifndef TESSERA_COLLECTIVES_TCP_MESSAGE_H_
#define TESSERA_COLLECTIVES_TCP_MESSAGE_H_

#include <cstdint>

#include "collectives/requests.h"

namespace tessera::comm::tcp {

enum class Kind : uint8_t {
  kRequest,  // the sender's request of an operation; few data follow at once
  kData,     // a piece of larger data, for a rank that has sent the same request
  kCredit,   // the sender has reduced the elements before `offset`
  kFailed,   // the group has failed on the sender; the reason follows
  kBye,      // the sender has ended without a failure
};

// A sequence of operations that run in order: the collectives of a group, the messages to a rank,
// or the messages from it.
enum class Lane : uint8_t { kCollective, kSend, kReceive };

// All ranks have the same byte order; they check that when they connect.
struct Header {
  Kind kind = Kind::kBye;
  Lane lane = Lane::kCollective;  // of the sender of this header
  uint8_t stage = 0;              // of kData
  uint8_t unused = 0;
  int32_t bytes = 0;  // that follow
  uint64_t group = 0;
  uint64_t number = 0;             // of the operation, in its lane
  RequestDescriptor request = {};  // of kRequest
  int64_t offset = 0;              // in bytes
  uint64_t padding = 0;
};
// A multiple of a cache line, because between ranks of one machine reads of 256 KiB took 90 us
// instead of 12 with a header of 56 bytes (AMD EPYC, Zen 3; buffers 64 bytes after the start of a
// page, where aligned_alloc places large ones). The likely cause: `rep movsb` is 15 times as slow
// there if the destination, modulo 4096, is less than a cache line above the source.
static_assert(sizeof(Header) == 64);

// The largest number of bytes that follow a header.
inline constexpr int32_t kPieceBytes = 262144;
// The largest number of bytes that follow a request.
inline constexpr int32_t kEagerBytes = 16384;

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_MESSAGE_H_
