#include "tools/train/flags/shell_word.h"

#include <cstdlib>

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

std::string ProgramCommand(const std::string& name, absl::string_view target) {
  // `bazel run` sets the variable.
  if (std::getenv("BUILD_WORKING_DIRECTORY") == nullptr) return ShellWord(name);
  return absl::StrCat("./bazelw run ", target, " --");
}

std::string WithArguments(const std::string& command, absl::Span<const std::string> arguments) {
  std::string text = command;
  for (const std::string& argument : arguments) absl::StrAppend(&text, " ", ShellWord(argument));
  return text;
}

}  // namespace tessera
