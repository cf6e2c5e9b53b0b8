// Bytes that a model writes one by one, as text that is safe to show.
#ifndef TESSERA_TOOLS_TRAIN_TEXT_STREAM_H_
#define TESSERA_TOOLS_TRAIN_TEXT_STREAM_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tessera {

// Not thread-safe.
class TextStream {
 public:
  // What can be shown now that these bytes have come too: whole characters of UTF-8. What is none,
  // and control characters but line ends and tabs, is U+FFFD.
  std::string Add(absl::string_view bytes);

  // What is left when no more will come.
  std::string Finish();

 private:
  std::string waiting_;  // the start of a character
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_TEXT_STREAM_H_
