#include "core/train/checkpoint/checksum.h"

#include <xxhash.h>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "core/status/check.h"

namespace tessera {

Checksum::Checksum() : state_(XXH3_createState()) {
  TESSERA_CHECK(state_ != nullptr && XXH3_128bits_reset(state_.get()) == XXH_OK);
}

void Checksum::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

void Checksum::Update(absl::Span<const char> bytes) {
  // An empty span may have a null pointer, which the library reports as an error.
  if (bytes.empty()) return;
  TESSERA_CHECK(XXH3_128bits_update(state_.get(), bytes.data(), bytes.size()) == XXH_OK);
}

std::string Checksum::Hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(canonical.digest), sizeof(canonical.digest)));
}

std::string ChecksumOf(absl::Span<const char> bytes) {
  Checksum checksum;
  checksum.Update(bytes);
  return checksum.Hex();
}

}  // namespace tessera
