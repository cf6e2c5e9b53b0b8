// Commands that a user can paste into a shell.
//
// Thread safety: pure functions.
#ifndef TESSERA_TOOLS_TRAIN_FLAGS_SHELL_WORD_H_
#define TESSERA_TOOLS_TRAIN_FLAGS_SHELL_WORD_H_

#include <string>

namespace tessera {

// Returns the word as a shell reads it back, in quotes if it needs them.
std::string ShellWord(const std::string& word);

}  // namespace tessera

#endif  // TESSERA_TOOLS_TRAIN_FLAGS_SHELL_WORD_H_
