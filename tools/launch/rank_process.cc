#include "tools/launch/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "tools/launch/reaper.h"

namespace tessera::comm {
namespace {

// The exit codes of a shell for a program that cannot be run.
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "cannot make a pipe");
  Pipe pipe = {FileDescriptor(fds[0]), FileDescriptor(fds[1])};
  fcntl(fds[0], F_SETFL, O_NONBLOCK);
  return pipe;
}

// Returns the texts as execve(2) expects them; valid as long as `texts`.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Returns the rank's share of the cores that are divided; empty if none are.
cpu_set_t CoresOfRank(const RankCommand& command, int rank) {
  const size_t share = command.cores.size() / command.size;
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (size_t i = rank * share; i < (rank + 1) * share; ++i) CPU_SET(command.cores[i], &cores);
  return cores;
}

// Everything that the two processes need after the fork, made before it.
struct Prepared {
  const RankCommand* command;
  int rank;
  std::vector<char*> arguments;
  std::vector<char*> variables;
  cpu_set_t cores;  // empty: those of this process
  int output;
  int error;
  int control;
};

// Turns this process, a fork of the reaper, into the rank's program.
[[noreturn]] void BecomeRank(const Prepared& prepared, pid_t reaper) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != reaper) _exit(kCannotRun);  // it was killed before the call above
  if (prepared.rank != 0 || !prepared.command->has_input) {
    const int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (nothing > STDERR_FILENO) close(nothing);
  }
  if (prepared.rank == 0) fcntl(prepared.command->listener.get(), F_SETFD, 0);  // stays open
  dup2(prepared.output, STDOUT_FILENO);
  dup2(prepared.error, STDERR_FILENO);
  // If the system forbids it, the rank runs on all cores; its results do not depend on them.
  if (CPU_COUNT(&prepared.cores) > 0) sched_setaffinity(0, sizeof(cpu_set_t), &prepared.cores);
  sigprocmask(SIG_SETMASK, &prepared.command->signal_mask, nullptr);
  execve(prepared.command->program.c_str(), prepared.arguments.data(), prepared.variables.data());
  const int error = errno;
  std::fprintf(stderr, "error: cannot run %s: %s\n", prepared.command->program.c_str(),
               strerror(error));
  std::fflush(stderr);
  _exit(error == ENOENT ? kNotFound : kCannotRun);
}

// Turns this process, a fork of the launcher, into a reaper, and starts its rank.
[[noreturn]] void BecomeReaper(const Prepared& prepared) {
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t self = getpid();
  const pid_t rank = fork();
  if (rank == 0) BecomeRank(prepared, self);
  if (rank < 0) _exit(1);
  setpgid(rank, rank);
  const int nothing = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, fd);
  if (nothing > STDERR_FILENO) close(nothing);
  fcntl(prepared.control, F_SETFD, 0);  // stays open
  std::string name = kReaperName;
  std::string control = absl::StrCat(prepared.control);
  std::string rank_pid = absl::StrCat(rank);
  char* arguments[] = {name.data(), control.data(), rank_pid.data(), nullptr};
  execve("/proc/self/exe", arguments, environ);
  _exit(1);  // the rank dies with this process
}

}  // namespace

std::vector<std::string> RankVariables(const std::vector<std::string>& inherited,
                                       const RankCommand& command, int rank) {
  std::map<std::string, std::string> ours = {
      {"TESSERA_LAUNCH", "1"},
      {"TESSERA_JOB_ID", command.job_id},
      {"TESSERA_SECRET", command.secret},
      {"TESSERA_RESTART_COUNT", absl::StrCat(command.restart_count)},
      {"RANK", absl::StrCat(rank)},
      {"WORLD_SIZE", absl::StrCat(command.size)},
      {"LOCAL_RANK", absl::StrCat(rank)},
      {"LOCAL_WORLD_SIZE", absl::StrCat(command.size)},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", absl::StrCat(command.port)},
      // Variables with an empty value are removed, even if a launcher around this one has set them.
      {"TESSERA_LISTEN_FD", rank == 0 ? absl::StrCat(command.listener.get()) : ""},
      {"TORCHELASTIC_USE_AGENT_STORE", ""},
      {"TORCHELASTIC_RUN_ID", ""},
  };
  std::vector<std::string> variables;
  bool has_threads = false;
  for (const std::string& variable : inherited) {
    const std::string name = variable.substr(0, variable.find('='));
    if (ours.count(name) > 0) continue;
    has_threads = has_threads || name == "OMP_NUM_THREADS";
    variables.push_back(variable);
  }
  if (!has_threads) ours["OMP_NUM_THREADS"] = absl::StrCat(command.threads);
  for (const auto& [name, value] : ours) {
    if (!value.empty()) variables.push_back(absl::StrCat(name, "=", value));
  }
  return variables;
}

absl::StatusOr<RankProcess> StartRank(const RankCommand& command, int rank) {
  std::vector<std::string> inherited;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    inherited.emplace_back(*variable);
  }
  const std::vector<std::string> variables = RankVariables(inherited, command, rank);
  std::vector<std::string> arguments = {command.program};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());

  ASSIGN_OR_RETURN(Pipe output, MakePipe());
  ASSIGN_OR_RETURN(Pipe error, MakePipe());
  int controls[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, controls) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pair of sockets");
  }
  FileDescriptor control(controls[0]);
  const FileDescriptor reapers_control(controls[1]);
  const Prepared prepared = {&command,
                             rank,
                             Pointers(arguments),
                             Pointers(variables),
                             CoresOfRank(command, rank),
                             output.write.get(),
                             error.write.get(),
                             reapers_control.get()};
  const pid_t reaper = fork();
  if (reaper == 0) BecomeReaper(prepared);
  if (reaper < 0) return absl::ErrnoToStatus(errno, "cannot start a process");
  return RankProcess{reaper, std::move(control), std::move(output.read), std::move(error.read)};
}

}  // namespace tessera::comm
