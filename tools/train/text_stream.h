// Converts the bytes that a model generates to text that is safe to print.
#ifndef TESSERA_TOOLS_TRAIN_TEXT_STREAM_H_
#define TESSERA_TOOLS_TRAIN_TEXT_STREAM_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Not thread-safe.
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

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_TEXT_STREAM_H_
