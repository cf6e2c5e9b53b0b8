#include "tools/train/rank/rank_program.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "collectives/fake/fake.h"
#include "collectives/rendezvous/environment.h"
#include "core/posix/program_files.h"
#include "core/posix/signals.h"
#include "core/posix/stop_requests.h"
#include "core/posix/user_folder.h"
#include "core/status/status_macros.h"
#include "core/text/text_stream.h"
#include "tools/launch/launcher.h"
#include "tools/launch/reaper.h"
#include "tools/train/rank/interrupt.h"
#include "tools/train/rank/standard_output.h"

namespace tessera {
namespace {

// A rank that does not report an error waits this long, so that the reporting rank ends first and a
// launcher names that one.
constexpr std::chrono::milliseconds kReporterEndsFirst{400};
// How long the other ranks leave an error before the ranks are connected to rank 0. mpirun ends the
// other ranks a second after rank 0 has ended.
constexpr std::chrono::milliseconds kFirstReports{2000};
// The rank that reports an error stays alive at least this long, so that others that find the same
// error see that it is reported.
constexpr std::chrono::milliseconds kReportHolds{100};

// Print a message in one line, even if a library's message has several, and without the control
// characters that names in files may have.
void Print(absl::string_view kind, absl::string_view message) {
  absl::FPrintF(stderr, "%s: %s\n", kind, Printable(absl::StrReplaceAll(message, {{"\n", " "}})));
}
void PrintError(absl::string_view message) { Print("error", message); }
void PrintNote(absl::string_view message) { Print("note", message); }

// Ends a process for which `new` finds no memory. It must not need any itself.
[[noreturn]] void EndWithoutMemory() {
  constexpr absl::string_view kError =
      "error: the system gives this process no more memory: a limit (`ulimit -v` shows it) or the "
      "machine is too small for this run\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kError.data(), kError.size());
  _exit(1);
}

// The variable in which the process that starts ranks passes them the name by which the user called
// the program. They show it in commands for the user; they themselves are started by the program's
// path, because a name may lead elsewhere.
constexpr char kProgramNameVariable[] = "TESSERA_PROGRAM_NAME";

absl::StatusOr<int> StartRanks(const std::string& name, comm::LaunchCommandLine launch) {
  ASSIGN_OR_RETURN(const comm::RankEnvironment environment, comm::ReadRankEnvironment(""));
  if (environment.size > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--nproc=", launch.nproc, " starts ranks, and this process is rank ", environment.rank,
        " of a job that ", environment.launcher, " has started: leave out --nproc"));
  }
  launch.program = ProgramPath();
  if (launch.program.empty()) {
    return absl::UnavailableError(
        "the system does not say which file this program is (/proc/self/exe), so no rank can be "
        "started");
  }
  setenv(kProgramNameVariable, name.c_str(), /*overwrite=*/1);
  launch.numbers_first_rank = false;  // it prints for all ranks
  return comm::Launch(launch);
}

// Returns the name by which the user called the program.
std::string NameForUser(const std::string& argv0) {
  const char* const name = std::getenv(kProgramNameVariable);
  return name != nullptr ? name : argv0;
}

// Returns when a signal has asked this rank to end, at the latest after `longest`.
void WaitForSignal(std::chrono::milliseconds longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  while (CaughtSignal() == 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// Before the ranks stop together, a stop signal ends one rank at once, and another finds its peer
// gone while its own copy of the signal is still on the way.
void LetSignalArrive(const absl::Status& error) {
  if (absl::IsUnavailable(error) && !IsAgreed(error) && !IsStopCollective()) {
    WaitForSignal(kSignalArrives);
  }
}

// Ends this rank after an error, and with it the others. Returns the exit code. Rank 0 reports an
// error that all ranks have. An error of one rank is reported by that rank, and one that several
// find at the same time (the death of another, for example) by the first.
//
// A stop signal reaches ranks at different moments, and ends one that has not begun to train at
// once. Another one, which would have trained, ends as it was asked to, too.
int EndJob(const absl::Status& error, Job& job) {
  const Ranks& ranks = job.ranks();
  LetSignalArrive(error);
  const int signal = CaughtSignal();
  const bool by_request = signal != 0 && !IsStopCollective() && !IsAgreed(error);
  const bool reports =
      IsAgreed(error) ? ranks.is_first() : !IsOfAnotherRank(error) && job.ClaimReport();
  if (reports) {
    std::fflush(stdout);
    const std::string rank = IsAgreed(error) ? "" : absl::StrCat("rank ", ranks.rank(), ": ");
    if (by_request) {
      PrintNote(absl::StrCat("stopped by SIG", sigabbrev_np(signal),
                             " before the first step: ", rank, error.message()));
    } else {
      PrintError(absl::StrCat(rank, error.message()));
    }
  }
  job.Leave(error).IgnoreError();
  if (!reports) {
    // An earlier signal shows that the reporting rank has ended and that its launcher ends this
    // one.
    WaitForSignal(kReporterEndsFirst);
  } else if (!IsAgreed(error)) {
    std::this_thread::sleep_for(kReportHolds);
  }
  return by_request ? 128 + signal : 1;
}

// Runs this rank, and leaves the job.
absl::StatusOr<int> RunRankOf(Job& job,
                              const std::function<absl::StatusOr<int>(Job& job)>& run_rank) {
  absl::StatusOr<int> code = run_rank(job);
  if (job.ranks().size() == 1) return code;
  if (!code.ok()) return EndJob(code.status(), job);
  RETURN_IF_ERROR(job.Leave(absl::OkStatus()));
  return code;
}

// Runs ranks that are threads of this process.
absl::StatusOr<int> RunThreads(const comm::WorldOptions& options, int threads,
                               const std::function<absl::StatusOr<int>(Job& job)>& run_rank) {
  std::vector<int> codes(threads, 0);
  const std::vector<absl::Status> statuses =
      comm::RunFake({.ranks = threads, .timeout_seconds = options.timeout_seconds},
                    [&](comm::World& world) -> absl::Status {
                      ASSIGN_OR_RETURN(const std::unique_ptr<Job> job, Job::OfThreads(&world));
                      ASSIGN_OR_RETURN(codes[world.rank()], RunRankOf(*job, run_rank));
                      return absl::OkStatus();
                    });
  for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
  return *std::max_element(codes.begin(), codes.end());
}

}  // namespace

void LetFirstRankReport() {
  const absl::StatusOr<comm::RankEnvironment> environment = comm::ReadRankEnvironment("");
  if (environment.ok() && environment->rank > 0) std::this_thread::sleep_for(kFirstReports);
}

absl::StatusOr<int> RunAsRank(const comm::WorldOptions& options, int threads,
                              const std::function<absl::StatusOr<int>(Job& job)>& run_rank) {
  if (threads > 0) return RunThreads(options, threads, run_rank);
  const absl::StatusOr<std::unique_ptr<Job>> job = Job::Join(options);
  if (!job.ok()) {
    LetSignalArrive(job.status());
    LetFirstRankReport();
    return job.status();
  }
  return RunRankOf(**job, run_rank);
}

int RankMain(int argc, char** argv, const RankProgram& program) {
  if (std::string(argv[0]) == comm::kReaperName) return comm::ReaperMain(argc, argv);
  std::set_new_handler(EndWithoutMemory);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const absl::StatusOr<std::string> argv0 = EnterUserFolder(argv[0]);
  absl::StatusOr<int> code;
  if (!argv0.ok()) {
    code = argv0.status();
  } else if (const std::optional<comm::LaunchCommandLine> launch = program.launch(arguments)) {
    code = StartRanks(*argv0, *launch);
  } else {
    const std::unique_ptr<SignalThread> signals = StartSignalThread();
    LetWritesFail();
    code = program.run(NameForUser(*argv0), arguments);
    const absl::Status written = OutputStatus();
    if (code.ok() && !written.ok()) code = written;
  }
  if (code.ok()) return *code;
  PrintError(code.status().message());
  return 1;
}

}  // namespace tessera
