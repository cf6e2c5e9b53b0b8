// The launcher's command line.
#ifndef TESSERA_TOOLS_LAUNCH_FLAGS_H_
#define TESSERA_TOOLS_LAUNCH_FLAGS_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tessera::comm {

inline constexpr int kMaxRanksOfHost = 1024;

struct LaunchCommandLine {
  bool help = false;
  int nproc = 0;
  std::chrono::milliseconds grace{0};
  std::string program;  // as the user wrote it
  std::vector<std::string> arguments;
};

// Flags stand before the program; what stands behind it is the program's. InvalidArgument names
// what is wrong, and says what would be right.
absl::StatusOr<LaunchCommandLine> ParseLaunchCommandLine(const std::vector<std::string>& arguments);

// What --help prints.
std::string LaunchHelpText();

// The file that a program's name stands for: a path if it has a slash, else one in $PATH, whose
// value is `path`. NotFound if there is none, PermissionDenied if it cannot be executed.
absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_FLAGS_H_
