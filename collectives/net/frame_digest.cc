#include "collectives/net/frame_digest.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <cstring>

#include "collectives/net/proof.h"
#include "core/status/check.h"

namespace tessera::comm {
namespace {

constexpr int kNonceOfFrameBytes = 12;  // the size for which GCM needs no further hashing

const unsigned char* Bytes(const void* data) { return static_cast<const unsigned char*>(data); }

}  // namespace

void FrameDigest::Deleter::operator()(EVP_CIPHER_CTX* context) const {
  EVP_CIPHER_CTX_free(context);
}

FrameDigest::FrameDigest(absl::string_view key) : context_(EVP_CIPHER_CTX_new()) {
  TESSERA_CHECK(static_cast<int64_t>(key.size()) == kSessionKeyBytes) << key.size();
  TESSERA_CHECK(context_ != nullptr && EVP_EncryptInit_ex(context_.get(), EVP_aes_128_gcm(),
                                                          nullptr, Bytes(key.data()), nullptr) == 1)
      << "AES-128-GCM";
}

void FrameDigest::Begin(uint64_t number) {
  unsigned char nonce[kNonceOfFrameBytes] = {};
  for (int byte = 0; byte < 8; ++byte) nonce[byte] = static_cast<unsigned char>(number >> 8 * byte);
  // Without a cipher and a key, those of the constructor stay: nothing is looked up or allocated.
  TESSERA_CHECK(EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce) == 1)
      << number;
}

void FrameDigest::Add(const void* data, int64_t bytes) {
  if (bytes == 0) return;
  int written = 0;
  // No output: the data are only authenticated.
  TESSERA_CHECK(EVP_EncryptUpdate(context_.get(), nullptr, &written, Bytes(data),
                                  static_cast<int>(bytes)) == 1)
      << bytes;
}

uint64_t FrameDigest::End() {
  unsigned char none[EVP_MAX_BLOCK_LENGTH];
  int written = 0;
  uint64_t digest = 0;
  OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, &digest, sizeof(digest)),
      OSSL_PARAM_construct_end()};
  TESSERA_CHECK(EVP_EncryptFinal_ex(context_.get(), none, &written) == 1 && written == 0 &&
                EVP_CIPHER_CTX_get_params(context_.get(), parameters) == 1)
      << "the digest of a frame";
  return digest;
}

void FrameDigest::Seal(uint64_t number, std::string* message) {
  Begin(number);
  Add(message->data(), static_cast<int64_t>(message->size()));
  const uint64_t digest = End();
  message->append(reinterpret_cast<const char*>(&digest), sizeof(digest));
}

bool FrameDigest::Open(uint64_t number, std::string* message) {
  if (static_cast<int64_t>(message->size()) < kFrameDigestBytes) return false;
  const size_t bytes = message->size() - kFrameDigestBytes;
  uint64_t digest = 0;
  std::memcpy(&digest, message->data() + bytes, sizeof(digest));
  message->resize(bytes);
  Begin(number);
  Add(message->data(), static_cast<int64_t>(bytes));
  return End() == digest;
}

}  // namespace tessera::comm
