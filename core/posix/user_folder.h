// The folder in which the user stands, where relative paths of a command line start. `bazel run`
// starts a program in another folder, and sets BUILD_WORKING_DIRECTORY to the user's.
#ifndef TESSERA_CORE_POSIX_USER_FOLDER_H_
#define TESSERA_CORE_POSIX_USER_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Makes the user's folder the working directory, so that all relative paths of the process start
// there: also those in options of a plugin, and in variables. Returns argv[0], made absolute if it
// is a relative path, so that it still leads to the program. Call it first in main.
absl::StatusOr<std::string> EnterUserFolder(absl::string_view argv0);

// Returns the absolute form of a path from the command line. "" stays "". Thread-safe.
std::string UserPath(absl::string_view path);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_USER_FOLDER_H_
