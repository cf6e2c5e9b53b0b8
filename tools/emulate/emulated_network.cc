#include "tools/emulate/emulated_network.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/posix/write_all.h"
#include "core/status/status_macros.h"
#include "tools/launch/flags.h"

namespace tessera {
namespace {

// Makes a namespace by a process that has it for a moment, since a process that leaves its own may
// be unable to return: without root it is so in a user namespace (unshare --map-root-user).
absl::StatusOr<FileDescriptor> MakeNamespace() {
  const pid_t self = getpid();
  const pid_t child = static_cast<pid_t>(syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == self) pause();
    _exit(0);
  }
  if (child < 0 && errno == EPERM) {
    return absl::PermissionDeniedError(
        "emulated hosts need root, to make network namespaces: run this as root, as with sudo, or "
        "by `unshare --map-root-user`");
  }
  if (child < 0) {
    return absl::ErrnoToStatus(errno, "emulated hosts need network namespaces of the kernel");
  }
  FileDescriptor space(
      open(absl::StrCat("/proc/", child, "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
  const int error = errno;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (space.is_open()) return space;
  return absl::ErrnoToStatus(error, "cannot open a network namespace");
}

absl::StatusOr<std::string> FindIproute2(const std::string& program) {
  const char* const path = std::getenv("PATH");
  // Those of users other than root often lack the last two.
  absl::StatusOr<std::string> found = comm::FindProgram(
      program, absl::StrCat(path == nullptr ? "" : path, ":/usr/sbin:/sbin:/usr/bin"));
  if (found.ok()) return found;
  return absl::NotFoundError(
      absl::StrCat("emulated hosts need ", program, " of iproute2: install the package iproute2"));
}

std::string ReadFromStart(int fd) {
  char bytes[4096];
  const ssize_t got = pread(fd, bytes, sizeof(bytes), 0);
  return std::string(bytes, got > 0 ? got : 0);
}

// Runs `PROGRAM -batch -` in a namespace. Returns the exit code, and what it wrote to either stream
// in `written`.
absl::StatusOr<int> RunBatch(const std::string& program, int space, const std::string& lines,
                             std::string* written) {
  const FileDescriptor input(memfd_create("batch", MFD_CLOEXEC));
  const FileDescriptor output(memfd_create("output", MFD_CLOEXEC));
  if (!input.is_open() || !output.is_open() || WriteAll(input.get(), lines) != lines.size() ||
      lseek(input.get(), 0, SEEK_SET) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a file in memory");
  }
  const pid_t child = fork();
  if (child < 0) return absl::ErrnoToStatus(errno, "cannot start a process");
  if (child == 0) {
    if (setns(space, CLONE_NEWNET) != 0) _exit(126);
    dup2(input.get(), STDIN_FILENO);
    dup2(output.get(), STDOUT_FILENO);
    dup2(output.get(), STDERR_FILENO);
    execl(program.c_str(), program.c_str(), "-batch", "-", nullptr);
    _exit(127);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  *written = ReadFromStart(output.get());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Returns the line that failed, which a batch names as in "Command failed -:3"; "" if none is
// named.
std::string FailedLine(const std::string& lines, const std::string& written) {
  const std::string before = "Command failed -:";
  const size_t at = written.find(before);
  if (at == std::string::npos) return "";
  const std::string number = written.substr(at + before.size());
  size_t line = 0;
  const std::vector<std::string> all = absl::StrSplit(lines, '\n');
  if (!absl::SimpleAtoi(number.substr(0, number.find('\n')), &line)) return "";
  return line >= 1 && line <= all.size() ? all[line - 1] : "";
}

absl::Status BatchError(const std::string& program, const std::string& lines,
                        const std::string& written) {
  const std::string failed = FailedLine(lines, written);
  if (absl::StrContains(failed, " netem ")) {
    return absl::UnavailableError(
        absl::StrCat("emulated hosts need the kernel's module sch_netem for a latency, which it ",
                     "lacks or does not load: install it, or leave out --latency"));
  }
  // The first line that the program wrote is its reason.
  std::string reason = written.substr(0, written.find('\n'));
  reason = std::string(absl::StripPrefix(reason, "Error: "));
  const std::string command = absl::StrCat("`", program, failed.empty() ? "" : " ", failed, "`");
  return absl::UnavailableError(
      absl::StrCat("emulated hosts need ", command, ", which failed: ", reason));
}

// Runs a line of commands each in a namespace.
absl::Status RunCommands(const std::string& name, const FileDescriptor& space,
                         const std::string& lines) {
  ASSIGN_OR_RETURN(const std::string program, FindIproute2(name));
  std::string written;
  ASSIGN_OR_RETURN(const int code, RunBatch(program, space.get(), lines, &written));
  return code == 0 ? absl::OkStatus() : BatchError(name, lines, written);
}

// Makes TCP in a namespace independent of what this machine has chosen. BBR paces packets with
// timers, which cost time of the cores: with it, 4 % less of an all-reduce of 16 MiB was hidden.
// Returns nothing: if the kernel refuses it, only times differ.
void ChooseReno(const FileDescriptor& space) {
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    if (setns(space.get(), CLONE_NEWNET) != 0) _exit(1);
    const int file = open("/proc/sys/net/ipv4/tcp_congestion_control", O_WRONLY | O_CLOEXEC);
    _exit(WriteAll(file, "reno") == 4 ? 0 : 1);
  }
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string PathOf(const FileDescriptor& file) {
  return absl::StrCat("/proc/", getpid(), "/fd/", file.get());
}

}  // namespace

absl::StatusOr<EmulatedNetwork> EmulatedNetwork::Make(int hosts, const LinkLimits& limits) {
  EmulatedNetwork network;
  for (int i = 0; i < hosts + 1; ++i) {
    ASSIGN_OR_RETURN(FileDescriptor space, MakeNamespace());
    network.namespaces_.push_back(std::move(space));
  }
  const FileDescriptor& bridge = network.namespaces_.back();
  std::string ports = SwitchCommands(), port_limits;
  for (int host = 0; host < hosts; ++host) {
    absl::StrAppend(&ports, PortCommands(host, network.HostNamespace(host)));
    absl::StrAppend(&port_limits, PortLimitCommands(host, limits));
  }
  RETURN_IF_ERROR(RunCommands("ip", bridge, ports));
  RETURN_IF_ERROR(RunCommands("tc", bridge, port_limits));
  for (int host = 0; host < hosts; ++host) {
    const FileDescriptor& space = network.namespaces_[host];
    RETURN_IF_ERROR(RunCommands("ip", space, HostCommands(host, limits)));
    RETURN_IF_ERROR(RunCommands("tc", space, HostLimitCommands(limits)));
    ChooseReno(space);
  }
  return network;
}

std::string EmulatedNetwork::HostNamespace(int host) const { return PathOf(namespaces_[host]); }

}  // namespace tessera
