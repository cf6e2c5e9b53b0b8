#include "core/posix/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tessera {
namespace {

// How often a process that keeps its pipe open is tested for having ended: a process that it has
// started may have the pipe too.
constexpr std::chrono::milliseconds kPoll{50};

// A message is its kind, the number of its bytes, and the bytes.
constexpr size_t kHeaderBytes = 1 + sizeof(uint64_t);

// Leaves the signals by which a user or a batch system stops a job to the parent.
void IgnoreJobSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    sigaddset(&signals, signal);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

// exit() in the child: skips the handlers and the destructors of the parent's objects.
void EndAtOnce(int code, void*) {
  std::fflush(stdout);
  _exit(code);
}

[[noreturn]] void RunChild(const std::function<void(ChildProcess::Parent&)>& body,
                           ChildProcess::Parent& parent, pid_t parent_pid) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent_pid) _exit(1);  // it has ended before it could be watched
  IgnoreJobSignals();
  on_exit(EndAtOnce, nullptr);
  body(parent);
  std::fflush(stdout);
  _exit(0);
}

}  // namespace

void ChildProcess::Parent::Send(char kind, absl::string_view bytes) {
  const uint64_t size = bytes.size();
  std::string message(kHeaderBytes, kind);
  std::memcpy(&message[1], &size, sizeof(size));
  absl::StrAppend(&message, bytes);
  MutexLock lock(&mutex_);
  for (size_t sent = 0; sent < message.size();) {
    const ssize_t written = write(pipe_.get(), &message[sent], message.size() - sent);
    if (written < 0 && errno != EINTR) _exit(1);
    sent += written < 0 ? 0 : written;
  }
}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::function<void(Parent& parent)>& body) {
  std::unique_ptr<ChildProcess> child(new ChildProcess);
  void* const page = mmap(nullptr, sizeof(std::atomic<bool>), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return absl::ErrnoToStatus(errno, "cannot start a process: mmap");
  child->stop_ = new (page) std::atomic<bool>(false);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot start a process: pipe");
  }
  child->pipe_ = FileDescriptor(ends[0]);
  FileDescriptor to_parent(ends[1]);
  std::fflush(nullptr);  // what is buffered would be written by both processes
  const pid_t parent_pid = getpid();
  child->pid_ = fork();
  if (child->pid_ < 0) return absl::ErrnoToStatus(errno, "cannot start a process: fork");
  if (child->pid_ == 0) {
    child->pipe_.Close();
    Parent parent(std::move(to_parent), child->stop_);
    RunChild(body, parent, parent_pid);
  }
  return child;
}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) End();
  if (stop_ != nullptr) munmap(stop_, sizeof(*stop_));
}

bool ChildProcess::Read() {
  char buffer[1 << 16];
  ssize_t size = 0;
  do {
    size = read(pipe_.get(), buffer, sizeof(buffer));
  } while (size < 0 && errno == EINTR);
  if (size <= 0) return false;
  received_.append(buffer, size);
  return true;
}

bool ChildProcess::TakeMessage(Message* message) {
  uint64_t size = 0;
  if (received_.size() - taken_ < kHeaderBytes) return false;
  std::memcpy(&size, &received_[taken_ + 1], sizeof(size));
  if (received_.size() - taken_ - kHeaderBytes < size) return false;
  message->kind = received_[taken_];
  message->bytes = received_.substr(taken_ + kHeaderBytes, size);
  taken_ += kHeaderBytes + size;
  if (taken_ == received_.size()) {
    received_.clear();
    taken_ = 0;
  }
  return true;
}

bool ChildProcess::HasEnded() {
  if (has_ended_) return true;
  const pid_t waited = waitpid(pid_, &status_, WNOHANG);
  // Nobody learns how a child ended whose parent ignores SIGCHLD.
  has_ended_ = waited == pid_ || (waited < 0 && errno == ECHILD);
  return has_ended_;
}

ChildProcess::Event ChildProcess::Receive(Clock::time_point until, Message* message) {
  bool is_open = true;
  while (!TakeMessage(message)) {
    // A process that has ended sends nothing after what lies in the pipe now.
    const bool ended = HasEnded();
    if (ended && !is_open) return Event::kEnd;
    const auto left = std::max<Clock::duration>(until - Clock::now(), Clock::duration::zero());
    const auto wait =
        ended
            ? std::chrono::milliseconds(0)
            : std::chrono::ceil<std::chrono::milliseconds>(std::min<Clock::duration>(left, kPoll));
    if (is_open) {
      pollfd readable = {pipe_.get(), POLLIN, 0};
      if (poll(&readable, 1, static_cast<int>(wait.count())) > 0) {
        is_open = Read();
        continue;
      }
      if (ended) return Event::kEnd;
    } else {
      std::this_thread::sleep_for(
          std::min<std::chrono::milliseconds>(wait, std::chrono::milliseconds(1)));
    }
    if (Clock::now() >= until) return Event::kTimeOut;
  }
  return Event::kMessage;
}

std::string ChildProcess::End() {
  if (!HasEnded()) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    has_ended_ = true;
  }
  if (WIFSIGNALED(status_)) {
    const int signal = WTERMSIG(status_);
    return absl::StrCat("signal ", signal, " (", strsignal(signal), ")");
  }
  return absl::StrCat("exit code ", WEXITSTATUS(status_));
}

}  // namespace tessera
