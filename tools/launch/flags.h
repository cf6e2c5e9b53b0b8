// The launcher's command line.
#ifndef TESSERA_TOOLS_LAUNCH_FLAGS_H_
#define TESSERA_TOOLS_LAUNCH_FLAGS_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/launch/grace_times.h"

ABSL_DECLARE_FLAG(int32_t, nproc);
ABSL_DECLARE_FLAG(double, grace);
ABSL_DECLARE_FLAG(int32_t, max_restarts);

namespace tessera::comm {

inline constexpr int kMaxRanksOfHost = 1024;

struct LaunchCommandLine {
  bool help = false;
  bool version = false;
  int nproc = 0;
  GraceTimes times;
  int max_restarts = 0;
  // No flags; as those of LaunchStreams.
  bool only_first_rank = false;
  bool numbers_first_rank = true;
  std::string program;  // as the user wrote it
  std::vector<std::string> arguments;
};

// Sets nproc, grace and max_restarts as the flags of these names say, for a program that starts its
// own ranks. InvalidArgument names the flag that does not fit.
absl::Status ReadLaunchFlags(LaunchCommandLine* line);

// Flags stand before the program; everything after it is passed to the program. InvalidArgument
// names the fault and the remedy.
absl::StatusOr<LaunchCommandLine> ParseLaunchCommandLine(const std::vector<std::string>& arguments);

// The text that --help prints.
std::string LaunchHelpText();

// Returns the file of a program: the name itself if it has a slash, else the first in the folders
// of `path` ($PATH). NotFound if there is none, PermissionDenied if it cannot be executed.
absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_FLAGS_H_
