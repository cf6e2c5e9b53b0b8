#include "core/text/text_stream.h"

#include <utf8.h>

#include <algorithm>

namespace tessera {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";

// Returns the length of the character that starts with `lead`, 1 for a byte that starts none.
size_t LengthFrom(unsigned char lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 1;
}

bool IsControl(const std::string& character) {
  const unsigned char first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) {
    return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
  }
  // U+0080 to U+009F are control characters too.
  return character.size() == 2 && first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

}  // namespace

std::string TextStream::Add(absl::string_view bytes) {
  incomplete_.append(bytes.data(), bytes.size());
  std::string shown;
  size_t next = 0;
  while (next < incomplete_.size()) {
    const size_t length = LengthFrom(static_cast<unsigned char>(incomplete_[next]));
    const size_t present = std::min(length, incomplete_.size() - next);
    const std::string character = incomplete_.substr(next, present);
    const bool may_go_on = std::all_of(character.begin() + 1, character.end(), IsContinuation);
    if (present < length && may_go_on) break;  // the rest may come with the next bytes
    if (utf8::is_valid(character.begin(), character.end())) {
      shown += IsControl(character) ? kReplacement : character;
      next += length;
    } else {
      shown += kReplacement;
      ++next;
    }
  }
  incomplete_.erase(0, next);
  return shown;
}

std::string TextStream::Finish() {
  std::string shown;
  if (!incomplete_.empty()) shown = kReplacement;
  incomplete_.clear();
  return shown;
}

std::string Printable(absl::string_view bytes) {
  TextStream stream;
  std::string text = stream.Add(bytes);
  return text + stream.Finish();
}

}  // namespace tessera
