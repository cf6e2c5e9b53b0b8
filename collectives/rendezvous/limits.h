// Bounds on the input that the rendezvous accepts from the network, and on its waits.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_LIMITS_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_LIMITS_H_

#include <chrono>
#include <cstdint>

namespace tessera::comm {

inline constexpr int64_t kMaxKeyBytes = 256;
inline constexpr int64_t kMaxValueBytes = 8 << 20;
inline constexpr int64_t kMaxStoreBytes = 256 << 20;  // keys and values together

// Bounds on a message: its bytes, and its fields including those of nested messages. Even an empty
// field takes 50 bytes of memory once parsed. A rank of a job of 100,000 ranks may wait for a key
// of each.
inline constexpr int64_t kMaxMessageBytes = 16 << 20;
inline constexpr int64_t kMaxMessageFields = 1 << 18;

// The error with which a rank leaves.
inline constexpr int64_t kMaxReasonBytes = 4096;

// Longer waits are shortened to this, so that adding it to a time does not overflow.
inline constexpr std::chrono::milliseconds kMaxTimeout = std::chrono::hours(24 * 365);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_LIMITS_H_
