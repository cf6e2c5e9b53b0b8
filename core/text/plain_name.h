// Plain names, which strategies, their options and their passes have.
#ifndef TESSERA_CORE_TEXT_PLAIN_NAME_H_
#define TESSERA_CORE_TEXT_PLAIN_NAME_H_

#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace tessera {

inline constexpr size_t kMaxPlainNameBytes = 128;

// Returns whether a text has lower case letters, digits and underscores alone, begins with a
// letter, and is not longer than that. Such a text is no path, and can be part of one and of a
// message.
inline bool IsPlainName(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxPlainNameBytes && absl::ascii_islower(text[0]) &&
         absl::c_all_of(text, [](char c) {
           return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '_';
         });
}

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_PLAIN_NAME_H_
