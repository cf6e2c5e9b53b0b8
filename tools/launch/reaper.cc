#include "tools/launch/reaper.h"

#include <dirent.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tessera::comm {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kKillTimeout{10};

// Returns 0 if there is no such process. The name in the file, in parentheses, may have any
// character.
pid_t ParentOf(absl::string_view pid) {
  std::FILE* const file = std::fopen(absl::StrCat("/proc/", pid, "/stat").c_str(), "re");
  if (file == nullptr) return 0;
  char bytes[512];
  const std::string text(bytes, std::fread(bytes, 1, sizeof(bytes), file));
  std::fclose(file);
  const size_t name_end = text.rfind(')');
  char state = 0;
  int parent = 0;
  if (name_end == std::string::npos ||
      std::sscanf(text.c_str() + name_end + 1, " %c %d", &state, &parent) != 2) {  // NOLINT
    return 0;
  }
  return parent;
}

class Reaper {
 public:
  Reaper(int launcher, pid_t rank) : launcher_(launcher), rank_(rank) {}

  int Run() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, nullptr);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const int child_signals = signalfd(/*fd=*/-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    // The rank may have ended before.
    while (child_signals >= 0 && !ReapChildren()) {
      pollfd events[] = {{launcher_, POLLIN, 0}, {child_signals, POLLIN, 0}};
      poll(events, 2, /*timeout=*/-1);
      signalfd_siginfo signal;
      while (read(child_signals, &signal, sizeof(signal)) > 0) {
      }
      if (events[0].revents != 0 && !PassOnSignal()) break;
    }
    return KillDescendants(kKillTimeout) ? 0 : 1;
  }

 private:
  // Reaps the children that have ended, and reports changes of the rank's state to the launcher.
  // Returns true if the rank has ended.
  bool ReapChildren() {
    int status = 0;
    pid_t changed = 0;
    while ((changed = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
      if (changed != rank_) continue;
      RankEvent event;
      event.wait_status = status;
      event.time_ns = std::chrono::nanoseconds(steady_clock::now().time_since_epoch()).count();
      (void)!send(launcher_, &event, sizeof(event), MSG_NOSIGNAL);
      if (WIFEXITED(status) || WIFSIGNALED(status)) return true;
    }
    return false;
  }

  // Returns false if the launcher has ended.
  bool PassOnSignal() {
    int signal = 0;
    const ssize_t got = recv(launcher_, &signal, sizeof(signal), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got != sizeof(signal)) return false;
    // The rank may have left its group, or not have entered it yet.
    if (signal == SIGKILL || kill(-rank_, signal) != 0) kill(rank_, signal);
    return true;
  }

  const int launcher_;
  const pid_t rank_;
};

}  // namespace

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  if (folder == nullptr) return children;
  const pid_t self = getpid();
  while (const dirent* entry = readdir(folder.get())) {
    int pid = 0;
    if (absl::SimpleAtoi(entry->d_name, &pid) && ParentOf(entry->d_name) == self) {
      children.push_back(pid);
    }
  }
  return children;
}

// Only children are killed: their process numbers cannot have been reused, since nothing has waited
// for them. Their own children become children of this process.
bool KillDescendants(std::chrono::milliseconds timeout, const std::vector<pid_t>& spared) {
  const auto deadline = steady_clock::now() + timeout;
  while (true) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    bool any = false;
    for (const pid_t child : Children()) {
      if (std::find(spared.begin(), spared.end(), child) != spared.end()) continue;
      any = true;
      kill(child, SIGKILL);
    }
    if (!any) return true;
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int ReaperMain(int argc, char** argv) {
  prctl(PR_SET_NAME, kReaperName);
  int launcher = 0;
  int rank = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[1], &launcher) || !absl::SimpleAtoi(argv[2], &rank)) {
    return 1;
  }
  return Reaper(launcher, rank).Run();
}

}  // namespace tessera::comm
