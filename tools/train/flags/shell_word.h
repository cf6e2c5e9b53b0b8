// Commands that a user can paste into a shell.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_SHELL_WORD_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_SHELL_WORD_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tessera {

// Returns the word as a shell reads it back, in quotes if it needs them.
std::string ShellWord(const std::string& word);

// Returns the command by which the user started the program of a Bazel target: "./bazelw run
// //tools/plan --", or `name`, by which the program was called.
std::string ProgramCommand(const std::string& name, absl::string_view target);

// Returns a command with arguments.
std::string WithArguments(const std::string& command, absl::Span<const std::string> arguments);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_SHELL_WORD_H_
