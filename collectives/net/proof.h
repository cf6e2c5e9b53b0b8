// Proofs that both ends of a connection know the job's secret, which is never sent: each end sends
// random bytes (a nonce) and receives them back under an HMAC-SHA256 whose key is derived from the
// secret and the job's name. A proof is valid for one connection, service, rank and role. From the
// same texts both ends derive the keys of the connection's digests (frame_digest.h).
//
// A secret must be long: whoever records one connection can try guesses on it, without asking a
// rank (some 100,000 a second on one core).
//
// Thread safety: pure functions.
#ifndef TESSERA_COLLECTIVES_NET_PROOF_H_
#define TESSERA_COLLECTIVES_NET_PROOF_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tessera::comm {

inline constexpr int64_t kNonceBytes = 32;
inline constexpr int64_t kProofBytes = 32;
inline constexpr int64_t kSessionKeyBytes = 16;
// The shortest secret that is accepted from a user; 22 characters of base64 or 32 hexadecimal
// digits have 128 bits.
inline constexpr int64_t kMinSecretCharacters = 16;

// Returns random bytes from the system.
std::string RandomBytes(int64_t count);

// Returns a new secret: 32 random lower-case hexadecimal digits, 128 bits.
std::string RandomSecret();

// Returns a digest of `text`: 32 hexadecimal digits.
std::string DigestOf(absl::string_view text);

struct ProofInput {
  absl::string_view secret;  // if empty, anyone who knows the job's name can make a valid proof
  absl::string_view job;
  absl::string_view service;  // "rendezvous", "tcp"
  absl::string_view acceptor_nonce;
  absl::string_view connector_nonce;
  int rank = 0;  // of the connector
  int size = 0;
};

// Return a proof of kProofBytes.
std::string ConnectorProof(const ProofInput& input);
std::string AcceptorProof(const ProofInput& input);

// Return the key for the digests of what the acceptor or the connector sends: kSessionKeyBytes. It
// is known to the two ends only, and different for each connection and direction.
std::string AcceptorKey(const ProofInput& input);
std::string ConnectorKey(const ProofInput& input);

// Compares two proofs in a time that does not depend on where they differ.
bool SameProof(absl::string_view a, absl::string_view b);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_PROOF_H_
