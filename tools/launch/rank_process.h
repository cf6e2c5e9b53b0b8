// Starts a rank, with its reaper (reaper.h) between the launcher and it.
//
// Thread safety: the process that starts ranks has one thread.
#ifndef TESSERA_TOOLS_LAUNCH_RANK_PROCESS_H_
#define TESSERA_TOOLS_LAUNCH_RANK_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

// The same for all ranks.
struct RankCommand {
  std::string program;                 // its path
  std::vector<std::string> arguments;  // without the program
  int size = 1;
  int threads = 1;  // OMP_NUM_THREADS, unless the user has set it
  // Each rank runs on an equal share of these, in this order; empty: on those of the launcher.
  std::vector<int> cores;
  int restart_count = 0;  // runs of this job before this one
  std::string job_id;     // the same for all of them
  std::string secret;
  int port = 0;               // on 127.0.0.1
  FileDescriptor listener;    // bound to it, for rank 0
  bool has_input = true;      // rank 0 reads the launcher's standard input; otherwise /dev/null
  sigset_t signal_mask = {};  // of the ranks when they start
};

// A rank that was started, and its reaper (reaper.h).
struct RankProcess {
  pid_t reaper = 0;        // a child of this process
  FileDescriptor control;  // the launcher's end of the socket to the reaper
  FileDescriptor output;   // reads the rank's standard output
  FileDescriptor error;    // and its standard error
};

// Starts a reaper, which starts the rank. All descriptors of the result are non-blocking, and
// closed on exec.
absl::StatusOr<RankProcess> StartRank(const RankCommand& command, int rank);

// Returns "NAME=VALUE" for each variable of the rank: those of `inherited`, with the launcher's in
// place of variables of the same name.
std::vector<std::string> RankVariables(const std::vector<std::string>& inherited,
                                       const RankCommand& command, int rank);

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_RANK_PROCESS_H_
