// Starting a rank, with its reaper (reaper.h) in between.
//
// Thread safety: the process that starts ranks has one thread.
#ifndef TESSERA_TOOLS_LAUNCH_RANK_PROCESS_H_
#define TESSERA_TOOLS_LAUNCH_RANK_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/net/socket.h"

namespace tessera::comm {

// The same for all ranks.
struct RankCommand {
  std::string program;                 // its path
  std::vector<std::string> arguments;  // without the program
  int size = 1;
  int threads = 1;  // OMP_NUM_THREADS, unless the user has set it
  std::string secret;
  int port = 0;          // on 127.0.0.1
  int listen_fd = -1;    // bound to it, for rank 0; the caller's
  sigset_t signal_mask;  // to start with
};

struct RankProcess {
  pid_t reaper = 0;  // a child of ours
  FileDescriptor control;
  FileDescriptor output;  // what the rank writes
  FileDescriptor error;
};

// All descriptors are non-blocking, and closed on exec.
absl::StatusOr<RankProcess> StartRank(const RankCommand& command, int rank);

// "NAME=VALUE" for each variable of the rank: those of `inherited` with ours on top.
std::vector<std::string> RankVariables(const std::vector<std::string>& inherited,
                                       const RankCommand& command, int rank);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_RANK_PROCESS_H_
