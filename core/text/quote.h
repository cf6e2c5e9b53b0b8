// Quotes text from outside for use in messages.
#ifndef TESSERA_CORE_TEXT_QUOTE_H_
#define TESSERA_CORE_TEXT_QUOTE_H_

#include <cstddef>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Returns a name for use in a message: quoted, escaped to one line, and shortened to 120 bytes if
// it is longer.
inline std::string Quote(absl::string_view text) {
  constexpr size_t kMost = 120;
  return absl::StrCat("'", absl::Utf8SafeCEscape(text.substr(0, kMost)),
                      text.size() > kMost ? "..." : "", "'");
}

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_QUOTE_H_
