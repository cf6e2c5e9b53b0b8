// The process between the launcher and a rank, that sees to it that nothing of the rank is left
// behind: when the rank ends, or the launcher does, in whatever way, it kills all that the rank has
// started and that still runs, and ends. The rank dies with it, should somebody kill it.
//
// It can do so because processes whose parent ends become its children (it is a "subreaper"), and
// it can outlive the launcher because it is in a session of its own, and has a name of its own.
//
// The launcher and it share a socket that keeps messages apart. The launcher sends numbers of
// signals, which go to the rank's process group, SIGKILL to all that there is; the reaper sends one
// RankEnd. Its end of file tells each of the other's end.
#ifndef TESSERA_TOOLS_LAUNCH_REAPER_H_
#define TESSERA_TOOLS_LAUNCH_REAPER_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace tessera::comm {

// What `ps` shows. It must not be part of the launcher's or a program's name: who kills these by
// name is not to kill the reaper with them.
inline constexpr char kReaperName[] = "tessera-reaper";

struct RankEnd {
  int32_t wait_status = 0;  // as waitpid gives it
  int64_t time_ns = 0;      // of the steady clock, the same for all processes
};

// The program of the process, run by `tessera-reaper SOCKET RANK_PID` once the rank, which is its
// child, has been started. Returns the exit code.
int ReaperMain(int argc, char** argv);

// The children of this process, those that have ended and were not waited for included.
std::vector<pid_t> Children();

// Kills all children of this process, which must be a subreaper, and theirs, but for those in
// `spared`, until there are none. False if some are left when the time is up: those that it may not
// kill, or that the kernel holds.
bool KillDescendants(std::chrono::milliseconds timeout, const std::vector<pid_t>& spared = {});

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_REAPER_H_
