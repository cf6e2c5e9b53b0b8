#include "tools/launch/job.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// The first two interrupts are passed on; the third one kills the ranks.
constexpr int kInterruptsThatKill = 3;
// For output in pipes when all ranks and their children are gone, and in sinks after an interrupt.
constexpr std::chrono::seconds kDrainTimeout{1};
constexpr std::chrono::seconds kKillTimeout{10};

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

}  // namespace

void Job::Stream::Read() {
  std::array<char, 64 << 10> bytes;
  const ssize_t got = read(pipe.get(), bytes.data(), bytes.size());
  if (got > 0) {
    sink.Write(lines.Feed(absl::string_view(bytes.data(), got), Clock::now()));
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    Close();
  }
}

void Job::Stream::Close() {
  if (!pipe.is_open()) return;
  sink.Write(lines.Finish());
  pipe.Close();
}

absl::Status Job::Start(const RankCommand& command) {
  for (int rank = 0; rank < command.size; ++rank) {
    absl::StatusOr<RankProcess> process = StartRank(command, rank);
    if (!process.ok()) {
      ranks_.clear();  // the reapers kill their ranks when this end of their sockets closes
      KillDescendants(kKillTimeout, foreign_);
      return absl::Status(process.status().code(), absl::StrCat("cannot start rank ", rank, ": ",
                                                                process.status().message()));
    }
    ranks_.push_back(std::make_unique<Rank>(rank, *std::move(process), &streams_));
  }
  return absl::OkStatus();
}

void Job::Run() {
  while (AnyRuns()) {
    Poll();
    HandleClosedOutput();
    if (!stopping_ && FirstFailed() >= 0) StopOthers();
    if (kill_at_ <= Clock::now()) {
      kill_at_ = Deadline::max();
      SendToAll(SIGKILL);
    }
  }
  // Processes that a reaper left behind because it was killed itself.
  KillDescendants(kKillTimeout, foreign_);
  Drain();
}

int Job::exit_code() const {
  const int failed = FirstFailed();
  if (failed >= 0) return ExitCodeOf(ranks_[failed]->end->wait_status);
  for (const auto& rank : ranks_) {
    if (rank->end->wait_status != 0) return ExitCodeOf(rank->end->wait_status);
  }
  return 0;
}

std::string Job::ReportOfFailure() const {
  const int rank = FirstFailed();
  if (rank < 0) return "";
  const Rank& failed = *ranks_[rank];
  std::string text = absl::StrCat("error: rank ", rank, " failed first, ",
                                  DescribeWaitStatus(failed.end->wait_status));
  if (failed.error.lines.last_lines().empty()) {
    return absl::StrCat(text, "; it wrote nothing to standard error\n");
  }
  absl::StrAppend(&text, "; the end of what it wrote to standard error:\n");
  for (const std::string& line : failed.error.lines.last_lines()) {
    absl::StrAppend(&text, "[", rank, "] ", line, "\n");
  }
  return text;
}

bool Job::AnyRuns() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank->control.is_open(); });
}

Deadline Job::NextDeadline() const {
  Deadline next = kill_at_;
  for (const auto& rank : ranks_) {
    next = std::min({next, rank->output.lines.next_stall(), rank->error.lines.next_stall()});
  }
  return next;
}

void Job::Poll() {
  std::vector<pollfd> events = {{streams_.signals.fd(), POLLIN, 0},
                                {streams_.output.poll_fd(), POLLOUT, 0},
                                {streams_.error.poll_fd(), POLLOUT, 0}};
  const size_t first_rank = events.size();
  for (const auto& rank : ranks_) {
    events.push_back({rank->control.get(), POLLIN, 0});
    for (const Stream* stream : {&rank->output, &rank->error}) {
      // While a sink is full its ranks wait, as they would for the reader themselves.
      events.push_back({stream->sink.is_full() ? -1 : stream->pipe.get(), POLLIN, 0});
    }
  }
  const Deadline deadline = NextDeadline();
  const int timeout = deadline == Deadline::max() ? -1 : MillisecondsUntil(deadline);
  if (poll(events.data(), events.size(), timeout) < 0) return;
  if (events[1].revents != 0) streams_.output.Flush();
  if (events[2].revents != 0) streams_.error.Flush();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const pollfd* const of_rank = &events[first_rank + 3 * i];
    if (of_rank[1].revents != 0) ranks_[i]->output.Read();
    if (of_rank[2].revents != 0) ranks_[i]->error.Read();
    if (of_rank[0].revents != 0) HandleControl(*ranks_[i]);
  }
  ShowStalledProgress();
  if (events[0].revents != 0) HandleSignals();
}

void Job::ShowStalledProgress() {
  for (const auto& rank : ranks_) {
    for (Stream* stream : {&rank->output, &rank->error}) {
      const std::string text = stream->lines.ShowStalled(Clock::now());
      if (!text.empty()) stream->sink.Write(text);
    }
  }
}

void Job::HandleSignals() {
  while (const int signal = streams_.signals.Next()) {
    if (LaunchSignals::IsInterrupt(signal)) {
      Interrupt(signal);
    } else {
      SendToAll(signal);
    }
  }
}

void Job::Interrupt(int signal) {
  if (streams_.interrupt == 0) streams_.interrupt = signal;
  ++streams_.interrupts;
  SendToAll(streams_.interrupts >= kInterruptsThatKill ? SIGKILL : signal);
}

// A program that writes to a pipe without a reader ends. So do the ranks, but they may save first.
void Job::HandleClosedOutput() {
  if (output_closed_ || (!streams_.output.is_closed() && !streams_.error.is_closed())) return;
  output_closed_ = true;
  if (streams_.interrupt != 0) return;
  streams_.error.Write("note: the reader of the output has gone: SIGTERM was sent to all ranks\n");
  Interrupt(SIGTERM);
}

void Job::HandleControl(Rank& rank) {
  RankEnd end;
  const ssize_t got = recv(rank.control.get(), &end, sizeof(end), /*flags=*/0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got == sizeof(end)) {
    rank.end = end;
    return;
  }
  rank.control.Close();
  if (rank.end.has_value()) return;
  // The reaper was killed, and its rank with it.
  end.wait_status = SIGKILL;
  end.time_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  rank.end = end;
}

// A rank that ends because of the interrupt has not failed.
bool Job::IsFailure(const Rank& rank) const {
  if (!rank.end.has_value() || rank.end->wait_status == 0) return false;
  return streams_.interrupt == 0 || ExitCodeOf(rank.end->wait_status) != 128 + streams_.interrupt;
}

int Job::FirstFailed() const {
  int first = -1;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (!IsFailure(*ranks_[i])) continue;
    if (first < 0 || ranks_[i]->end->time_ns < ranks_[first]->end->time_ns) {
      first = static_cast<int>(i);
    }
  }
  return first;
}

void Job::StopOthers() {
  stopping_ = true;
  kill_at_ = Clock::now() + grace_;
  SendToAll(SIGTERM);
}

void Job::SendToAll(int signal) {
  for (const auto& rank : ranks_) {
    if (!rank->control.is_open() || rank->end.has_value()) continue;
    (void)!send(rank->control.get(), &signal, sizeof(signal), MSG_NOSIGNAL);
  }
}

void Job::Drain() {
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

void FlushStreams(LaunchStreams* streams) {
  Deadline deadline = Deadline::max();
  while (!streams->output.is_empty() || !streams->error.is_empty()) {
    if (streams->interrupt != 0) deadline = std::min(deadline, Clock::now() + kDrainTimeout);
    pollfd events[] = {{streams->signals.fd(), POLLIN, 0},
                       {streams->output.poll_fd(), POLLOUT, 0},
                       {streams->error.poll_fd(), POLLOUT, 0}};
    const int timeout = deadline == Deadline::max() ? -1 : MillisecondsUntil(deadline);
    if (poll(events, std::size(events), timeout) == 0) return;
    while (const int signal = streams->signals.Next()) {
      if (LaunchSignals::IsInterrupt(signal)) streams->interrupt = signal;
    }
    streams->output.Flush();
    streams->error.Flush();
  }
}

std::string DescribeWaitStatus(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return absl::StrCat("exit code ", WEXITSTATUS(wait_status));
  const char* const name = sigabbrev_np(WTERMSIG(wait_status));
  if (name == nullptr) return absl::StrCat("killed by signal ", WTERMSIG(wait_status));
  return absl::StrCat("killed by SIG", name);
}

}  // namespace tessera::comm
