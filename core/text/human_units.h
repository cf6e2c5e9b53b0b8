// Formats and parses numbers as people write them.
//
// Thread safety: pure functions.
#ifndef TESSERA_CORE_TEXT_HUMAN_UNITS_H_
#define TESSERA_CORE_TEXT_HUMAN_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// "1.23 GiB", "512 B": three digits or more, in the largest binary unit that fits.
std::string FormatBytes(int64_t bytes);

// Parses "2GiB" or "2G", "1.5 MiB", "200MB", "4096" (bytes if there is no unit). The message of
// InvalidArgument says which forms are valid.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

// "1h 02m", "1m 23s", "4.56 s", "7.89 ms".
std::string FormatSeconds(double seconds);

// "123", "4.57K", "124M", "8.01B" (billions), "1.50T": powers of 1000, for counts of things.
std::string FormatCount(double count);
// "123 FLOP", "11.1 GFLOP/s": the same before a unit.
std::string FormatCount(double count, absl::string_view unit);

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_HUMAN_UNITS_H_
