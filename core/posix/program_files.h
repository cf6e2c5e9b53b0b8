// The files that come with a program: plugins, data, documents.
//
// They are found by the program's own file. The name by which the program was called (argv[0]) and
// the working directory play no part: either may lead into a folder of someone else.
#ifndef TESSERA_CORE_POSIX_PROGRAM_FILES_H_
#define TESSERA_CORE_POSIX_PROGRAM_FILES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera {

// Returns the absolute path of this program's file, without links; "" if the system does not name
// it. A program that starts itself again starts this file. Thread-safe.
std::string ProgramPath();

// Returns the absolute path of a file that comes with the program. `runfile` is its path among
// Bazel's runfiles, "tessera/docs/plans/sliced.textproto", and has no part "..". The file is
// searched for among the runfiles that Bazel's variables name (RUNFILES_DIR,
// RUNFILES_MANIFEST_FILE), among those of ProgramPath(), and under its base name beside it.
// NotFound lists the searched folders. Thread-safe as long as nothing sets variables.
absl::StatusOr<std::string> FindProgramFile(absl::string_view runfile);

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_PROGRAM_FILES_H_
