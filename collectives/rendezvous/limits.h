// What the rendezvous takes from the network, at most.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_LIMITS_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_LIMITS_H_

#include <chrono>
#include <cstdint>

namespace tessera::comm {

inline constexpr int kRendezvousVersion = 1;

inline constexpr int64_t kMaxKeyBytes = 256;
inline constexpr int64_t kMaxValueBytes = 8 << 20;
inline constexpr int64_t kMaxStoreBytes = 256 << 20;  // keys and values together

// A message, and one from or to a rank that has not proved that it knows the secret.
inline constexpr int64_t kMaxMessageBytes = 16 << 20;
inline constexpr int64_t kMaxGreetingBytes = 1024;

// Connections that have not proved it: so many, the oldest ones make room; and so long.
inline constexpr int64_t kMaxStrangers = 128;
inline constexpr std::chrono::seconds kStrangerTimeout{10};

// Of the error with which a rank leaves.
inline constexpr int64_t kMaxReasonBytes = 4096;

// Requests of one rank that are waiting for an answer.
inline constexpr int64_t kMaxWaitsOfRank = 256;

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_LIMITS_H_
