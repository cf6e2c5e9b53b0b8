#include "collectives/net/proof.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <initializer_list>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/status/check.h"

namespace tessera::comm {
namespace {

// Joins parts, each preceded by its length, so that different lists give different texts.
std::string Join(std::initializer_list<absl::string_view> parts) {
  std::string text;
  for (absl::string_view part : parts) absl::StrAppend(&text, part.size(), ":", part);
  return text;
}

std::string Hmac(absl::string_view key, absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  const unsigned char* made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest, &bytes);
  TESSERA_CHECK(made != nullptr) << "HMAC-SHA256";
  return std::string(reinterpret_cast<const char*>(digest), bytes);
}

// Returns 32 bytes for one use, which nobody can compute who does not know the secret.
std::string Derive(absl::string_view use, const ProofInput& input) {
  return Hmac(Join({input.secret, input.job}),
              Join({"tessera", input.service, use, input.acceptor_nonce, input.connector_nonce,
                    absl::StrCat(input.rank), absl::StrCat(input.size)}));
}

}  // namespace

std::string RandomBytes(int64_t count) {
  std::string bytes(count, '\0');
  for (int64_t filled = 0; filled < count;) {
    const ssize_t got = getrandom(&bytes[filled], count - filled, /*flags=*/0);
    TESSERA_CHECK(got > 0 || errno == EINTR) << "getrandom";
    if (got > 0) filled += got;
  }
  return bytes;
}

std::string RandomSecret() { return absl::BytesToHexString(RandomBytes(16)); }

std::string DigestOf(absl::string_view text) {
  return absl::BytesToHexString(Hmac("tessera", text).substr(0, 16));
}

std::string ConnectorProof(const ProofInput& input) { return Derive("connector", input); }

std::string AcceptorProof(const ProofInput& input) { return Derive("acceptor", input); }

std::string AcceptorKey(const ProofInput& input) {
  return Derive("session key acceptor->connector", input).substr(0, kSessionKeyBytes);
}

std::string ConnectorKey(const ProofInput& input) {
  return Derive("session key connector->acceptor", input).substr(0, kSessionKeyBytes);
}

bool SameProof(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tessera::comm
