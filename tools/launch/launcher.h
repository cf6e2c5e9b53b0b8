// The launcher: starts the ranks of a job, shows what they write, starts them again after a failure
// if it may, and ends when they have ended.
#ifndef TESSERA_TOOLS_LAUNCH_LAUNCHER_H_
#define TESSERA_TOOLS_LAUNCH_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/launch/flags.h"

namespace tessera::comm {

// Returns the exit code: 0 if all ranks ended with 0, else that of the rank that failed first in
// the last run (128 and the number of the signal that killed it), whose error is then the last text
// on standard error. An error if the ranks could not be started. Call once, in a process with one
// thread.
absl::StatusOr<int> Launch(const LaunchCommandLine& line);

// Prints to standard output or error; returns the exit code.
int LaunchMain(const std::vector<std::string>& arguments);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_LAUNCHER_H_
