// Bounds for the texts of configurations, which are checked before parsing: protobuf's parser
// recurses for messages inside an Any without a bound.
#ifndef TESSERA_CORE_TRAIN_CONFIG_TEXT_BOUNDS_H_
#define TESSERA_CORE_TRAIN_CONFIG_TEXT_BOUNDS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera {

// The effective configuration of the largest preset (gpt3_175b) has 1 KiB. The rest is for a
// prompt: Linux passes at most 128 KiB as one argument, and a byte is written as at most 4.
inline constexpr int64_t kMaxConfigBytes = int64_t{1} << 20;
// The depth of a field in a model's message is 3: RunConfig, its Any, the message in the Any.
inline constexpr int kMaxConfigDepth = 16;

// Returns InvalidArgument if a text in protobuf's text form has more bytes or deeper nesting than
// these. The message starts with `source`.
//
// Thread safety: a pure function.
absl::Status CheckConfigBounds(absl::string_view text, absl::string_view source);

}  // namespace tessera

#endif  // TESSERA_CORE_TRAIN_CONFIG_TEXT_BOUNDS_H_
