#include "tools/launch/launcher.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket.h"
#include "core/posix/available_cores.h"
#include "core/posix/stop_requests.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/version.h"
#include "tools/launch/rank_group.h"
#include "tools/launch/rank_process.h"
#include "tools/launch/reaper.h"

namespace tessera::comm {
namespace {

// Opens /dev/null for each of the three standard streams that is closed, so that no descriptor of
// the launcher takes its number.
void OpenMissingStreams() {
  int fd = 0;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd >= 0) close(fd);
}

// Returns false for a job in the background of a terminal, which must not take the input of the
// foreground program. The kernel would not stop it, since ranks are in sessions of their own.
bool MayReadStandardInput() {
  return isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

// Returns "20250131-235959-1f3c": the local time, and digits that distinguish jobs of the same
// second.
std::string NewJobId() {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char time[32];
  std::strftime(time, sizeof(time), "%Y%m%d-%H%M%S", &local);
  return absl::StrCat(time, "-", RandomSecret().substr(0, 4));
}

// Returns the cores to divide among the ranks, or none if they do not divide evenly. Returns none
// also if a quota limits core time below the number of cores: other processes have quotas on the
// same cores, so ranks should run on whichever cores are free.
std::vector<int> CoresToShare(int ranks) {
  std::vector<int> cores = AllowedCores();
  const int count = static_cast<int>(cores.size());
  if (ranks == 1 || count % ranks != 0 || AvailableCores() < count) return {};
  SortByTopology(&cores);
  return cores;
}

absl::StatusOr<RankCommand> MakeCommand(const LaunchCommandLine& line,
                                        const LaunchSignals& signals) {
  const char* const path = std::getenv("PATH");
  RankCommand command;
  ASSIGN_OR_RETURN(command.program, FindProgram(line.program, path == nullptr ? "" : path));
  command.arguments = line.arguments;
  command.size = line.nproc;
  command.job_id = NewJobId();
  command.threads = std::max(1, AvailableCores() / line.nproc);
  command.cores = CoresToShare(line.nproc);
  command.has_input = MayReadStandardInput();
  command.signal_mask = signals.original_mask();
  return command;
}

// Sets the fields that differ between the runs of a job.
absl::Status PrepareRun(int restart_count, RankCommand* command) {
  command->restart_count = restart_count;
  command->secret = RandomSecret();
  ASSIGN_OR_RETURN(command->listener, ListenOn(Reach::kLoopback, 0));
  ASSIGN_OR_RETURN(command->port, PortOf(command->listener));
  return absl::OkStatus();
}

// Reads the signals that have arrived since the run. There is no rank to pass them on to.
void RecordSignals(LaunchStreams* streams) {
  while (const int signal = streams->signals.Next()) {
    if (IsNotice(signal)) {
      streams->notices.insert(signal);
    } else if (streams->interrupt == 0) {
      streams->interrupt = signal;
    }
  }
}

}  // namespace

absl::StatusOr<int> Launch(const LaunchCommandLine& line) {
  OpenMissingStreams();
  ASSIGN_OR_RETURN(LaunchSignals signals, LaunchSignals::Take());
  ASSIGN_OR_RETURN(RankCommand command, MakeCommand(line, signals));
  // This process may already have children: those of a shell that ran exec.
  const std::vector<pid_t> foreign = Children();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  LaunchStreams streams = {std::move(signals), OutputSink(STDOUT_FILENO),
                           OutputSink(STDERR_FILENO)};
  streams.only_first_rank = line.only_first_rank;
  streams.numbers_first_rank = line.numbers_first_rank;
  for (int restarts = 0;; ++restarts) {
    RETURN_IF_ERROR(PrepareRun(restarts, &command));
    RankGroup group(line.times, foreign, &streams);
    RETURN_IF_ERROR(group.Start(command));
    command.listener.Close();  // rank 0 has it
    group.Run();
    streams.error.Write(group.has_failed() ? group.FailureReport() : group.RequestedEndReport());
    RecordSignals(&streams);
    if (!group.has_failed() || restarts == line.max_restarts || streams.IsEndRequested()) {
      FlushStreams(&streams);
      return group.exit_code();
    }
    streams.error.Write(absl::StrCat("note: starting all ranks again, restart ", restarts + 1,
                                     " of ", line.max_restarts, "\n"));
  }
}

int LaunchMain(const std::vector<std::string>& arguments) {
  const absl::StatusOr<std::string> entered = EnterUserFolder("");
  if (!entered.ok()) {
    absl::FPrintF(stderr, "error: %s\n", std::string(entered.status().message()));
    return 1;
  }
  unsetenv("BUILD_WORKING_DIRECTORY");  // a program may enter another folder before it starts ours
  const absl::StatusOr<LaunchCommandLine> line = ParseLaunchCommandLine(arguments);
  if (line.ok() && line->help) {
    absl::PrintF("%s", LaunchHelpText());
    return 0;
  }
  if (line.ok() && line->version) {
    absl::PrintF("%s", VersionLine());
    return 0;
  }
  const absl::StatusOr<int> code = line.ok() ? Launch(*line) : line.status();
  if (code.ok()) return *code;
  absl::FPrintF(stderr, "error: %s\n", std::string(code.status().message()));
  return 1;
}

}  // namespace tessera::comm
