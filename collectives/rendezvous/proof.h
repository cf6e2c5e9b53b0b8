// How a rank and the store prove to each other that they know the job's secret, without saying it:
// each sends random bytes (a nonce), and gets them back under an HMAC-SHA256 whose key is made of
// the secret and the job's name. An answer is of no use for any other connection, rank or role.
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_PROOF_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_PROOF_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera::comm {

inline constexpr int64_t kNonceBytes = 32;

// Random bytes from the system.
std::string RandomBytes(int64_t count);

// 32 lower-case hexadecimal digits, 128 bits.
std::string RandomSecret();

// A name of fixed length for a text of any: 32 hexadecimal digits.
std::string DigestOf(absl::string_view text);

struct ProofInput {
  absl::string_view secret;  // may be empty: then anyone who knows the job's name can prove it
  absl::string_view job;
  absl::string_view store_nonce;
  absl::string_view rank_nonce;
  int rank = 0;
  int size = 0;
};

std::string RankProof(const ProofInput& input);
std::string StoreProof(const ProofInput& input);

// Takes the same time wherever the two differ.
bool SameProof(absl::string_view a, absl::string_view b);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_PROOF_H_
