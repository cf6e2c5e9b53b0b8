// Texts that an editor begins with a byte-order mark.
#ifndef TESSERA_CORE_TEXT_BYTE_ORDER_MARK_H_
#define TESSERA_CORE_TEXT_BYTE_ORDER_MARK_H_

#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tessera {

// Returns the text without the UTF-8 byte-order mark at its start, which some editors write and
// parsers refuse. For files of settings: in training data the mark is data.
inline absl::string_view SkipByteOrderMark(absl::string_view text) {
  return absl::StripPrefix(text, "\xEF\xBB\xBF");
}

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_BYTE_ORDER_MARK_H_
