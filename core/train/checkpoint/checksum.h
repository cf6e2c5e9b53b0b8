// XXH3-128 checksums of data that comes in chunks. They detect damage by disks, memory and
// networks, not deliberate forgery.
#ifndef TESSERA_CORE_TRAIN_CHECKPOINT_CHECKSUM_H_
#define TESSERA_CORE_TRAIN_CHECKPOINT_CHECKSUM_H_

#include <memory>
#include <string>

#include "absl/types/span.h"

struct XXH3_state_s;

namespace tessera {

// One thread at a time.
class Checksum {
 public:
  Checksum();

  void Update(absl::Span<const char> bytes);

  // 32 lower-case hexadecimal digits, as the command `xxhsum -H2` prints them.
  std::string Hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };

  std::unique_ptr<XXH3_state_s, Free> state_;
};

// Returns the checksum of one chunk, in the form of Checksum::Hex.
std::string ChecksumOf(absl::Span<const char> bytes);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CHECKPOINT_CHECKSUM_H_
