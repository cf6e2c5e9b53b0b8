#include "tools/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket.h"
#include "core/status/status_macros.h"
#include "tools/launch/rank_output.h"
#include "tools/launch/rank_process.h"
#include "tools/launch/reaper.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// Of a terminal or a scheduler; they are for the ranks.
constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
// The first is a request, the second too; who sends a third one has no patience left.
constexpr int kInterruptsThatKill = 3;
// When all ranks and what they started are gone, nobody can hold their pipes open for long.
constexpr std::chrono::seconds kDrainTimeout{1};
constexpr std::chrono::seconds kKillTimeout{10};

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

int CoresOfThisProcess() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

// Who reads may have gone: then there is nobody to tell.
void Write(int fd, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    if (put > 0) {
      text.remove_prefix(put);
    } else if (errno == EAGAIN) {
      pollfd event = {fd, POLLOUT, 0};
      poll(&event, 1, /*timeout=*/-1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

struct Stream {
  Stream(FileDescriptor pipe, int rank, int shown_on)
      : pipe(std::move(pipe)), lines(rank), shown_on(shown_on) {}

  // Shows what there is.
  void Read() {
    std::array<char, 64 << 10> bytes;
    const ssize_t got = read(pipe.get(), bytes.data(), bytes.size());
    if (got > 0) {
      Write(shown_on, lines.Feed(absl::string_view(bytes.data(), got), Clock::now()));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      Close();
    }
  }
  void Close() {
    if (!pipe.is_open()) return;
    Write(shown_on, lines.Finish());
    pipe.Close();
  }

  FileDescriptor pipe;
  RankOutput lines;
  const int shown_on;
};

struct Rank {
  Rank(int rank, RankProcess process)
      : control(std::move(process.control)),
        output(std::move(process.output), rank, STDOUT_FILENO),
        error(std::move(process.error), rank, STDERR_FILENO) {}

  FileDescriptor control;  // closed when the reaper has ended
  Stream output;
  Stream error;
  std::optional<RankEnd> end;
};

class Launcher {
 public:
  explicit Launcher(std::chrono::milliseconds grace) : grace_(grace), foreign_(Children()) {}

  // Signals must be blocked, all of those that may come.
  absl::Status Start(const RankCommand& command, FileDescriptor signals);
  // Until all ranks have ended. Returns the exit code.
  int Run();

 private:
  bool AnyRuns() const;
  void Poll();
  void HandleSignals();
  void HandleControl(Rank& rank);
  bool IsFailure(const Rank& rank) const;
  const Rank* FirstFailed() const;
  void StopOthers();
  void SendToAll(int signal);
  void Drain();
  void Report(const Rank& failed) const;

  const std::chrono::milliseconds grace_;
  // Children from before: a shell that has become this process may have had some.
  const std::vector<pid_t> foreign_;
  FileDescriptor signals_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  int interrupt_ = 0;  // the first signal that was passed on
  int interrupts_ = 0;
  bool stopping_ = false;  // a rank has failed
  Deadline kill_at_ = Deadline::max();
};

absl::Status Launcher::Start(const RankCommand& command, FileDescriptor signals) {
  signals_ = std::move(signals);
  for (int rank = 0; rank < command.size; ++rank) {
    absl::StatusOr<RankProcess> process = StartRank(command, rank);
    if (!process.ok()) {
      ranks_.clear();  // which tells the reapers
      KillDescendants(kKillTimeout, foreign_);
      return absl::Status(process.status().code(), absl::StrCat("cannot start rank ", rank, ": ",
                                                                process.status().message()));
    }
    ranks_.push_back(std::make_unique<Rank>(rank, *std::move(process)));
  }
  return absl::OkStatus();
}

int Launcher::Run() {
  while (AnyRuns()) {
    Poll();
    if (!stopping_ && FirstFailed() != nullptr) StopOthers();
    if (kill_at_ <= Clock::now()) {
      kill_at_ = Deadline::max();
      SendToAll(SIGKILL);
    }
  }
  // What a reaper could not take with it, because it was killed itself.
  KillDescendants(kKillTimeout, foreign_);
  Drain();
  if (const Rank* failed = FirstFailed()) {
    Report(*failed);
    return ExitCodeOf(failed->end->wait_status);
  }
  for (const auto& rank : ranks_) {
    if (rank->end->wait_status != 0) return ExitCodeOf(rank->end->wait_status);
  }
  return 0;
}

bool Launcher::AnyRuns() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank->control.is_open(); });
}

void Launcher::Poll() {
  std::vector<pollfd> events = {{signals_.get(), POLLIN, 0}};
  for (const auto& rank : ranks_) {
    for (const FileDescriptor* fd : {&rank->control, &rank->output.pipe, &rank->error.pipe}) {
      events.push_back({fd->get(), POLLIN, 0});  // a closed one is passed over
    }
  }
  if (poll(events.data(), events.size(),
           kill_at_ == Deadline::max() ? -1 : MillisecondsUntil(kill_at_)) < 0) {
    return;
  }
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const pollfd* const of_rank = &events[1 + 3 * i];
    if (of_rank[1].revents != 0) ranks_[i]->output.Read();
    if (of_rank[2].revents != 0) ranks_[i]->error.Read();
    if (of_rank[0].revents != 0) HandleControl(*ranks_[i]);
  }
  if (events[0].revents != 0) HandleSignals();
}

void Launcher::HandleSignals() {
  signalfd_siginfo info;
  while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
    if (info.ssi_signo == SIGCHLD) {
      while (waitpid(-1, nullptr, WNOHANG) > 0) {
      }
      continue;
    }
    if (interrupt_ == 0) interrupt_ = static_cast<int>(info.ssi_signo);
    ++interrupts_;
    SendToAll(interrupts_ >= kInterruptsThatKill ? SIGKILL : static_cast<int>(info.ssi_signo));
  }
}

void Launcher::HandleControl(Rank& rank) {
  RankEnd end;
  const ssize_t got = recv(rank.control.get(), &end, sizeof(end), /*flags=*/0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got == sizeof(end)) {
    rank.end = end;
    return;
  }
  rank.control.Close();
  if (rank.end.has_value()) return;
  // Somebody has killed the reaper, and the rank with it.
  end.wait_status = SIGKILL;
  end.time_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  rank.end = end;
}

// One that ends as it was asked to does not fail.
bool Launcher::IsFailure(const Rank& rank) const {
  if (!rank.end.has_value() || rank.end->wait_status == 0) return false;
  return interrupt_ == 0 || ExitCodeOf(rank.end->wait_status) != 128 + interrupt_;
}

const Rank* Launcher::FirstFailed() const {
  const Rank* first = nullptr;
  for (const auto& rank : ranks_) {
    if (!IsFailure(*rank)) continue;
    if (first == nullptr || rank->end->time_ns < first->end->time_ns) first = rank.get();
  }
  return first;
}

void Launcher::StopOthers() {
  stopping_ = true;
  kill_at_ = Clock::now() + grace_;
  SendToAll(SIGTERM);
}

void Launcher::SendToAll(int signal) {
  for (const auto& rank : ranks_) {
    if (!rank->control.is_open() || rank->end.has_value()) continue;
    (void)!send(rank->control.get(), &signal, sizeof(signal), MSG_NOSIGNAL);
  }
}

void Launcher::Drain() {
  const Deadline deadline = Clock::now() + kDrainTimeout;
  for (const auto& rank : ranks_) {
    for (Stream* stream : {&rank->output, &rank->error}) {
      pollfd event = {stream->pipe.get(), POLLIN, 0};
      while (stream->pipe.is_open() && poll(&event, 1, MillisecondsUntil(deadline)) > 0) {
        stream->Read();
      }
      stream->Close();
    }
  }
}

void Launcher::Report(const Rank& failed) const {
  const auto found = std::find_if(ranks_.begin(), ranks_.end(),
                                  [&](const auto& rank) { return rank.get() == &failed; });
  const auto rank = found - ranks_.begin();
  std::string text = absl::StrCat("error: rank ", rank, " failed first, ",
                                  DescribeWaitStatus(failed.end->wait_status));
  if (failed.error.lines.last_lines().empty()) {
    absl::StrAppend(&text, "; it wrote nothing to standard error\n");
  } else {
    absl::StrAppend(&text, "; the end of what it wrote to standard error:\n");
    for (const std::string& line : failed.error.lines.last_lines()) {
      absl::StrAppend(&text, "[", rank, "] ", line, "\n");
    }
  }
  Write(STDERR_FILENO, text);
}

// Blocks the signals that this process handles, and returns where they can be read. `before` is
// the mask as it was.
absl::StatusOr<FileDescriptor> TakeSignals(sigset_t* before) {
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGCHLD);
  for (const int signal : kPassedOn) {
    struct sigaction action = {};
    sigaction(signal, nullptr, &action);
    // nohup has SIGHUP ignored, a shell SIGINT of what runs in the background.
    if (action.sa_handler != SIG_IGN) sigaddset(&taken, signal);
  }
  sigprocmask(SIG_BLOCK, &taken, before);
  FileDescriptor signals(signalfd(/*fd=*/-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) return absl::ErrnoToStatus(errno, "cannot read signals");
  return signals;
}

// So that no pipe of ours takes the place of one of the three streams.
void OpenMissingStreams() {
  int fd = 0;
  while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) {
  }
  if (fd >= 0) close(fd);
}

}  // namespace

std::string DescribeWaitStatus(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
  const char* const name = sigabbrev_np(WTERMSIG(wait_status));
  if (name == nullptr) return absl::StrCat("killed by signal ", WTERMSIG(wait_status));
  return absl::StrCat("killed by SIG", name);
}

absl::StatusOr<int> Launch(const LaunchCommandLine& line) {
  OpenMissingStreams();
  const char* const path = std::getenv("PATH");
  RankCommand command;
  ASSIGN_OR_RETURN(command.program, FindProgram(line.program, path == nullptr ? "" : path));
  command.arguments = line.arguments;
  command.size = line.nproc;
  command.threads = std::max(1, CoresOfThisProcess() / line.nproc);
  command.secret = RandomSecret();
  ASSIGN_OR_RETURN(FileDescriptor listener, ListenOn(Reach::kLoopback, 0));
  ASSIGN_OR_RETURN(command.port, PortOf(listener));
  command.listen_fd = listener.get();
  ASSIGN_OR_RETURN(FileDescriptor signals, TakeSignals(&command.signal_mask));
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  Launcher launcher(line.grace);
  RETURN_IF_ERROR(launcher.Start(command, std::move(signals)));
  listener.Close();  // it is rank 0's alone
  return launcher.Run();
}

int LaunchMain(const std::vector<std::string>& arguments) {
  // Under `bazel run`: relative paths are the user's.
  const char* const user_folder = std::getenv("BUILD_WORKING_DIRECTORY");
  if (user_folder != nullptr && chdir(user_folder) != 0) {
    absl::FPrintF(stderr, "error: cannot change to %s: %s\n", user_folder, strerror(errno));
    return 1;
  }
  const absl::StatusOr<LaunchCommandLine> line = ParseLaunchCommandLine(arguments);
  if (line.ok() && line->help) {
    absl::PrintF("%s", LaunchHelpText());
    return 0;
  }
  const absl::StatusOr<int> code = line.ok() ? Launch(*line) : line.status();
  if (code.ok()) return *code;
  absl::FPrintF(stderr, "error: %s\n", std::string(code.status().message()));
  return 1;
}

}  // namespace tessera::comm
