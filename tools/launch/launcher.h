// Starts ranks, shows what they write, and ends when they have ended.
#ifndef TESSERA_TOOLS_LAUNCH_LAUNCHER_H_
#define TESSERA_TOOLS_LAUNCH_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/launch/flags.h"

namespace tessera::comm {

// Returns the exit code: 0 if all ranks ended with 0, else that of the rank that failed first (128
// and the number of the signal that killed it), whose error is then the last thing on standard
// error. An error if the ranks could not be started. Call once, in a process with one thread.
absl::StatusOr<int> Launch(const LaunchCommandLine& line);

// Prints to standard output or error; returns the exit code.
int LaunchMain(const std::vector<std::string>& arguments);

// "exit code 3", "killed by SIGSEGV"; of a status as waitpid gives it.
std::string DescribeWaitStatus(int wait_status);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_LAUNCHER_H_
