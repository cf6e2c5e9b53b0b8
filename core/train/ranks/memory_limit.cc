#include "core/train/ranks/memory_limit.h"

#include "absl/strings/str_cat.h"
#include "core/text/human_units.h"

namespace tessera {

std::string SmallestLimit(int64_t bytes) {
  return absl::StrCat(FormatBytes(bytes), " (--memory_limit=", bytes, ")");
}

absl::Status CheckMemoryLimit(int64_t peak_bytes, int64_t limit_bytes, absl::string_view written,
                              absl::string_view who) {
  if (limit_bytes == 0 || peak_bytes <= limit_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("memory_limit is ", written, ", and ", who, " needs ", FormatBytes(peak_bytes),
                   ": the smallest limit that could be met is ", SmallestLimit(peak_bytes)));
}

}  // namespace tessera
