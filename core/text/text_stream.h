// Converts bytes from outside (a model's samples, names in files, messages of plugins) to text that
// is safe to print: a terminal obeys control characters.
#ifndef TESSERA_CORE_TEXT_TEXT_STREAM_H_
#define TESSERA_CORE_TEXT_TEXT_STREAM_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// A stream of bytes that becomes text as it arrives. Not thread-safe.
class TextStream {
 public:
  // Appends bytes and returns the complete characters that can be printed now, in UTF-8. Invalid
  // bytes, and control characters other than line ends and tabs, become U+FFFD.
  std::string Add(absl::string_view bytes);

  // Returns the rest, when no more bytes follow.
  std::string Finish();

 private:
  std::string incomplete_;  // the start of a character
};

// Returns what a stream returns for all of the bytes.
std::string Printable(absl::string_view bytes);

}  // namespace tessera

#endif  // TESSERA_CORE_TEXT_TEXT_STREAM_H_
