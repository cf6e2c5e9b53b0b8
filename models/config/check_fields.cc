#include "models/config/check_fields.h"

#include "absl/strings/str_cat.h"

namespace tessera {

absl::Status CheckSize(absl::string_view field, int64_t value, int64_t least, int64_t largest) {
  if (value >= least && value <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", field, ": ", value, " is not from ", least, " to ", largest));
}

absl::Status CheckFraction(absl::string_view field, double value) {
  if (value >= 0 && value < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", field, ": ", value, " is not in [0, 1)"));
}

}  // namespace tessera
