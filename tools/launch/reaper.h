// The process between the launcher and a rank. When the rank or the launcher ends, in whatever way,
// the reaper kills everything that the rank has started and that still runs, and ends. If the
// reaper is killed, its rank dies with it.
//
// Processes whose parent ends become its children (it is a "subreaper"). It outlives the launcher
// because it has a session and a name of its own.
//
// The launcher and it share a socket that keeps messages apart. The launcher sends numbers of
// signals, which go to the rank's process group (SIGKILL: to everything); the reaper sends a
// RankEvent whenever the rank is stopped (SIGSTOP), continues or has ended. Each side learns of the
// other's end by the end of the stream.
#ifndef TESSERA_TOOLS_LAUNCH_REAPER_H_
#define TESSERA_TOOLS_LAUNCH_REAPER_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <vector>

namespace tessera::comm {

// The name that `ps` shows. It must not be part of the launcher's or a program's name, so that
// killing these by name does not kill the reaper too.
inline constexpr char kReaperName[] = "tessera-reaper";

// The rank's process has ended, or was stopped or continued.
struct RankEvent {
  int32_t wait_status = 0;  // of waitpid(2)
  int64_t time_ns = 0;      // of the steady clock, which is the same for all processes
};

// The program of the process, run by `tessera-reaper SOCKET RANK_PID` once the rank, which is its
// child, has been started. Returns the exit code.
int ReaperMain(int argc, char** argv);

// Returns the children of this process, including those that have ended and were not waited for.
std::vector<pid_t> Children();

// Kills all children of this process, which must be a subreaper, and their children, except those
// in `spared`. Returns false if some are left after `timeout`: this process may not kill them, or
// the kernel holds them.
bool KillDescendants(std::chrono::milliseconds timeout, const std::vector<pid_t>& spared = {});

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_REAPER_H_
