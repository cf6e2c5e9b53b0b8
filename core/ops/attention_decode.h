// The positions of the operands of attention_decode, and the rows of its caches.
#ifndef TESSERA_CORE_OPS_ATTENTION_DECODE_H_
#define TESSERA_CORE_OPS_ATTENTION_DECODE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {

struct AttentionDecodeInput {
  enum : int { kQ, kK, kV, kKCache, kVCache, kPosition };
};

struct AttentionDecodeOutput {
  enum : int { kO, kKCache, kVCache };
};

// Returns OutOfRange if a cache of so many rows, which may be split, has no row `position`.
inline absl::Status CheckPosition(int64_t position, int64_t rows) {
  if (position >= 0 && position < rows) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("position ", position, " is not in the cache: it has rows [0, ", rows, ")"));
}

}  // namespace tessera

#endif  // TESSERA_CORE_OPS_ATTENTION_DECODE_H_
