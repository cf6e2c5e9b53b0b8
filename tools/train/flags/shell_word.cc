#include "tools/train/flags/shell_word.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace tessera {

std::string ShellWord(const std::string& word) {
  const bool plain = word.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                         "0123456789_-+=./:,@%") == std::string::npos;
  if (plain && !word.empty()) return word;
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

}  // namespace tessera
