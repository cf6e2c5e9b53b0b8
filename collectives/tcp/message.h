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
  uint8_t coverage = 0;           // not 0: the digest covers the bytes that follow, too
  int32_t bytes = 0;              // that follow
  uint64_t group = 0;
  uint64_t number = 0;             // of the operation, in its lane
  RequestDescriptor request = {};  // of kRequest
  int64_t offset = 0;              // in bytes
  // The digest of the header with 0 in this field (collectives/net/frame_digest.h), and of the
  // bytes that follow if `coverage` says so. A Connection sets and checks it; 0 without digests.
  uint64_t digest = 0;
};
// A multiple of a cache line, because between ranks of one machine reads of 256 KiB took 90 us
// instead of 12 with a header of 56 bytes (AMD EPYC, Zen 3; buffers 64 bytes after the start of a
// page, where aligned_alloc places large ones). The likely cause: `rep movsb` is 15 times as slow
// there if the destination, modulo 4096, is less than a cache line above the source.
static_assert(sizeof(Header) == 64);

// Header::coverage, as it is sent, of a header whose digest covers `bytes` bytes that follow. It
// depends on each bit of `bytes`, which the receiver uses before it can check the digest: it would
// wait for bytes that were not sent if one bit had been changed on the way.
inline constexpr uint8_t CoverageOf(int32_t bytes) {
  const auto value = static_cast<uint32_t>(bytes);
  const uint32_t folded = value ^ value >> 7 ^ value >> 14 ^ value >> 21 ^ value >> 28;
  return static_cast<uint8_t>(0x80 | (folded & 0x7f));
}

// The largest number of bytes that follow a header.
inline constexpr int32_t kPieceBytes = 262144;
// The largest number of bytes that follow a request.
inline constexpr int32_t kEagerBytes = 16384;
// Up to this number of bytes that follow a header are covered whenever the header is, since that
// takes hardly longer: losses, norms, counts, and short texts such as the numbers of groups.
inline constexpr int32_t kAlwaysCoveredBytes = 256;

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_MESSAGE_H_
