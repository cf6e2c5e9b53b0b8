#include "tools/launch/flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/status/status_macros.h"
#include "tools/command_line/command_line.h"

ABSL_FLAG(int32_t, nproc, 0, "ranks to start, all on this machine");
ABSL_FLAG(double, grace, 5,
          "when a rank has failed, seconds between SIGTERM and SIGKILL for the others");
ABSL_FLAG(int32_t, max_restarts, 0, "how often all ranks are started again after one has failed");

namespace tessera::comm {
namespace {

constexpr double kMaxGraceSeconds = 86400;
constexpr int kMaxRestarts = 1'000'000;

const std::vector<FlagGroup>& Groups() {
  static const auto* const groups =
      new std::vector<FlagGroup>{{"Flags, before the program",
                                  {{"nproc", "N", {"nproc_per_node", "nproc-per-node", "np"}},
                                   {"grace", "X"},
                                   {"max_restarts", "N", {"max-restarts"}}}}};
  return *groups;
}

bool IsDirectory(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

absl::Status ReadLaunchFlags(LaunchCommandLine* line) {
  line->nproc = absl::GetFlag(FLAGS_nproc);
  const double grace = absl::GetFlag(FLAGS_grace);
  if (line->nproc < 1 || line->nproc > kMaxRanksOfHost) {
    return absl::InvalidArgumentError(absl::StrCat("--nproc=", line->nproc,
                                                   ": give the number of ranks, from 1 to ",
                                                   kMaxRanksOfHost, ", such as --nproc=2"));
  }
  if (!(grace >= 0 && grace <= kMaxGraceSeconds)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--grace=", grace, " is not a number of seconds from 0 to ", kMaxGraceSeconds));
  }
  line->max_restarts = absl::GetFlag(FLAGS_max_restarts);
  if (line->max_restarts < 0 || line->max_restarts > kMaxRestarts) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_restarts=", line->max_restarts, " is not a whole number from 0 to ", kMaxRestarts));
  }
  line->times.grace = std::chrono::milliseconds(std::lround(grace * 1e3));
  return absl::OkStatus();
}

absl::StatusOr<LaunchCommandLine> ParseLaunchCommandLine(
    const std::vector<std::string>& arguments) {
  LaunchCommandLine line;
  ASSIGN_OR_RETURN(const ParsedFlags parsed, ParseFlags(arguments, Groups(), Rest::kBegins));
  line.help = parsed.help;
  line.version = parsed.version;
  if (line.help || line.version) return line;
  RETURN_IF_ERROR(ReadLaunchFlags(&line));
  if (parsed.rest.empty()) {
    return absl::InvalidArgumentError(
        "there is no program to start: name it after the flags, with its arguments (see --help)");
  }
  line.program = parsed.rest.front();
  line.arguments.assign(parsed.rest.begin() + 1, parsed.rest.end());
  return line;
}

std::string LaunchHelpText() {
  const std::string text =
      R"(Starts the ranks of a job on this machine, each as a process, and shows their output with the
rank before each line, also that of rank 0: any of them may print. If a rank fails, the others are
stopped (SIGTERM, and after --grace seconds SIGKILL, or SIGKILL at once if their process is stopped),
and its error is shown last. No process is left when the launcher ends, however it ends.

Usage
  ./bazelw run //tools/launch -- --nproc=N [--max_restarts=N] PROGRAM [ARGUMENT...]

Examples
  ./bazelw run //tools/launch -- --nproc=2 bazel-bin/tools/comm_bench/comm_bench
      measures collectives between two ranks
  ./bazelw run //tools/launch -- --nproc=4 sh -c 'echo rank $RANK of $WORLD_SIZE'
  ./bazelw run //tools/launch -- --nproc=2 --max_restarts=3 PROGRAM
      starts all ranks again, up to three times, each time that one fails

Variables of each rank
  RANK, WORLD_SIZE               the number of the rank, and of all ranks
  LOCAL_RANK, LOCAL_WORLD_SIZE   the same, as all ranks are on this machine
  MASTER_ADDR, MASTER_PORT       where ranks find each other
  TESSERA_SECRET                 with which ranks prove that they are of this job; new for each
                                 start
  TESSERA_RESTART_COUNT          how often the job was started again: 0 at first
  TESSERA_JOB_ID                 a name of the job, the same for each start
  OMP_NUM_THREADS                its share of the cores that this process may use (affinity and
                                 control group), unless you have set it

Cores
  Each rank runs on an equal share of the cores, so that what communicates for a rank takes no time
  of another one; on all, if they do not divide evenly or a control group grants fewer. To place ranks
  otherwise, start the program by taskset or numactl: sh -c 'exec taskset -c $RANK PROGRAM'.

Signals and output
  Ctrl-C, SIGTERM, SIGHUP and SIGQUIT are passed on to all ranks, which may take as long as they
  need to end; the third such signal kills them. A job that is ended so is not started again.
  A rank that gets SIGTERM, SIGINT or SIGHUP itself, as in a preemption, and then exits with 128
  plus the number of the signal, has not failed: the job ends with this exit code, and is not
  started again. A rank that such a signal kills has failed.
  SIGUSR1 and SIGUSR2 are passed on too. If the reader of the output ends (... | head), all ranks
  get SIGTERM.
  A program that starts its own ranks (--nproc of train and compare) lets rank 0 print for all of
  them, and shows its lines without the rank.
  Rank 0 reads standard input, unless the job is in the background of a terminal.
  The exit code is that of the rank that failed first; if a signal killed it, 128 plus the number of
  the signal.

Across machines, use torchrun, srun or mpirun, with TESSERA_SECRET set to the same random text of 16
characters or more on every rank, for example of `openssl rand -hex 16`.
)";
  return text + FlagsHelp(Groups(), {{"nproc", {"", ""}}});  // has no default
}

absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path) {
  std::vector<std::string> candidates;
  if (absl::StrContains(program, '/')) {
    candidates.push_back(program);
  } else {
    for (absl::string_view folder : absl::StrSplit(path, ':')) {
      candidates.push_back(absl::StrCat(folder.empty() ? "." : folder, "/", program));
    }
  }
  std::string found;
  for (const std::string& candidate : candidates) {
    if (access(candidate.c_str(), F_OK) != 0 || IsDirectory(candidate)) continue;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    found = candidate;
  }
  if (!found.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot start '", program, "': ", found, " is not executable"));
  }
  if (candidates.front() != program) {
    return absl::NotFoundError(
        absl::StrCat("cannot start '", program, "': there is no such program in $PATH"));
  }
  return absl::NotFoundError(
      absl::StrCat("cannot start '", program,
                   "': ", IsDirectory(program) ? "it is a folder" : "there is no such file"));
}

}  // namespace tessera::comm
