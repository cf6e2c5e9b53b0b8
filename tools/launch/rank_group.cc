#include "tools/launch/rank_group.h"

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

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/posix/stop_requests.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// The first two requests are passed on; the third one kills the ranks.
constexpr int kRequestsThatKill = 3;
// The longest wait for output in pipes after all ranks and their children have ended, and for sinks
// after an interrupt.
constexpr std::chrono::seconds kDrainTimeout{1};
constexpr std::chrono::seconds kKillTimeout{10};
// How long after its time limit a suspended rank is killed, so that the ranks that wait for it
// report it first. If the launcher was suspended with its ranks, they continue within this time.
constexpr std::chrono::milliseconds kSuspendedSlack{500};

int ExitCodeOf(int wait_status) {
  return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

// Returns whether a process ended because of a signal that asks it to end: the signal killed it, or
// it exited with 128 plus the signal's number.
bool EndedBySignal(int wait_status) {
  const int signal = ExitCodeOf(wait_status) - 128;
  return signal == SIGTERM || signal == SIGINT || signal == SIGHUP || IsNotice(signal);
}

// Returns whether a process exited by itself because a signal asked it to end.
bool EndedByRequest(int wait_status) {
  return WIFEXITED(wait_status) && EndedBySignal(wait_status);
}

}  // namespace

void RankGroup::Stream::Read() {
  std::array<char, 64 << 10> bytes;
  const ssize_t got = read(pipe.get(), bytes.data(), bytes.size());
  if (got > 0) {
    const absl::string_view bytes_read(bytes.data(), got);
    Show(lines.Feed(bytes_read, Clock::now()), bytes_read);
  } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
    Close();
  }
}

void RankGroup::Stream::Close() {
  if (!pipe.is_open()) return;
  Show(lines.Finish());
  pipe.Close();
}

void RankGroup::Stream::Show(absl::string_view lines_read, absl::string_view bytes_read) {
  const absl::string_view text = is_unchanged ? bytes_read : lines_read;
  if (text.empty() || is_hidden) return;
  sink.Write(text);
  last_shown = ++shown;
}

absl::Status RankGroup::Start(const RankCommand& command) {
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

void RankGroup::Run() {
  while (AnyRuns()) {
    WaitForEvents();
    HandleClosedOutput();
    if (!ending_ && MustEndOthers()) EndOthers();
    KillSuspendedRanks();
    if (kill_all_at_ <= Clock::now()) {
      kill_all_at_ = Deadline::max();
      SendSignalToAll(SIGKILL);
    }
  }
  // Kills processes that a reaper did not kill because it was killed itself.
  KillDescendants(kKillTimeout, foreign_);
  Drain();
  AwaitLateSignal();
}

int RankGroup::exit_code() const {
  const int failed = FirstFailureBeforeRequestedEnd();
  if (failed >= 0) return ExitCodeOf(ranks_[failed]->end->wait_status);
  for (const auto& rank : ranks_) {
    if (rank->end->wait_status != 0) return ExitCodeOf(rank->end->wait_status);
  }
  return 0;
}

std::string RankGroup::FailureReport() const {
  const int rank = FirstFailureBeforeRequestedEnd();
  if (rank < 0) return "";
  const Rank& failed = *ranks_[rank];
  const auto& written = failed.error.lines.last_lines();
  if (WIFEXITED(failed.end->wait_status) && failed.error.last_shown == streams_.shown &&
      !written.empty() && absl::StartsWith(written.back(), "error: ")) {
    return "";
  }
  std::string text = absl::StrCat(
      "error: rank ", rank, " failed first, ",
      failed.was_suspended_too_long ? "stopped by a signal for too long, and then " : "",
      DescribeWaitStatus(failed.end->wait_status));
  if (written.empty()) {
    return absl::StrCat(text, "; it wrote nothing to standard error\n");
  }
  absl::StrAppend(&text, "; the end of what it wrote to standard error:\n");
  for (const std::string& line : written) {
    absl::StrAppend(&text, failed.error.lines.prefix(), line, "\n");
  }
  return text;
}

std::string RankGroup::RequestedEndReport() const {
  const int rank = FirstEndedByRequest();
  if (rank < 0 || FirstFailureBeforeRequestedEnd() >= 0 || WereAllAskedToEnd()) return "";
  const int code = WEXITSTATUS(ranks_[rank]->end->wait_status);
  return absl::StrCat("note: rank ", rank, " ended with exit code ", code, ", as SIG",
                      sigabbrev_np(code - 128), " asks: the job ends\n");
}

bool RankGroup::AnyRuns() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank->control.is_open(); });
}

Deadline RankGroup::NextDeadline() const {
  Deadline next = kill_all_at_;
  for (const auto& rank : ranks_) {
    next = std::min({next, rank->suspended_too_long_at, rank->kill_suspended_at,
                     rank->output.lines.next_stall(), rank->error.lines.next_stall()});
  }
  return next;
}

void RankGroup::WaitForEvents() {
  std::vector<pollfd> events = {{streams_.signals.fd(), POLLIN, 0},
                                {streams_.output.poll_fd(), POLLOUT, 0},
                                {streams_.error.poll_fd(), POLLOUT, 0}};
  const size_t first_rank = events.size();
  for (const auto& rank : ranks_) {
    events.push_back({rank->control.get(), POLLIN, 0});
    for (const Stream* stream : {&rank->output, &rank->error}) {
      // While a sink is full its pipes are not read, so ranks wait as they would for the reader
      // itself.
      events.push_back({stream->sink.is_full() ? -1 : stream->pipe.get(), POLLIN, 0});
    }
  }
  const Deadline deadline = NextDeadline();
  const int timeout = deadline == Deadline::max() ? -1 : MillisecondsUntil(deadline);
  if (poll(events.data(), events.size(), timeout) < 0) return;
  if (events[1].revents != 0) streams_.output.Flush();
  if (events[2].revents != 0) streams_.error.Flush();
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const pollfd* const rank_events = &events[first_rank + 3 * i];
    if (rank_events[1].revents != 0) ranks_[i]->output.Read();
    if (rank_events[2].revents != 0) ranks_[i]->error.Read();
    if (rank_events[0].revents != 0) HandleControl(*ranks_[i]);
  }
  ShowStalledProgress();
  if (events[0].revents != 0) HandleSignals();
}

void RankGroup::ShowStalledProgress() {
  for (const auto& rank : ranks_) {
    for (Stream* stream : {&rank->output, &rank->error}) {
      stream->Show(stream->lines.ShowStalled(Clock::now()));
    }
  }
}

void RankGroup::HandleSignals() {
  while (const int signal = streams_.signals.Next()) {
    if (IsNotice(signal)) {
      streams_.notices.insert(signal);
      SendSignalToAll(signal);
    } else {
      Interrupt(signal);
    }
  }
}

void RankGroup::Interrupt(int signal) {
  if (streams_.interrupt == 0) streams_.interrupt = signal;
  SendSignalToAll(streams_.requests.Add(signal) >= kRequestsThatKill ? SIGKILL : signal);
}

// A program that writes to a pipe without a reader ends. The ranks are ended too, but may save
// first.
void RankGroup::HandleClosedOutput() {
  if (output_closed_ || (!streams_.output.is_closed() && !streams_.error.is_closed())) return;
  output_closed_ = true;
  if (streams_.interrupt != 0) return;
  streams_.error.Write("note: the reader of the output has gone: SIGTERM was sent to all ranks\n");
  Interrupt(SIGTERM);
}

void RankGroup::HandleControl(Rank& rank) {
  RankEvent event;
  const ssize_t got = recv(rank.control.get(), &event, sizeof(event), /*flags=*/0);
  // ECONNRESET: the reaper ended without having read every signal. It comes once, before the events
  // that the reaper sent, which can be read the next time.
  if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET)) return;
  if (got == sizeof(event)) return RecordEvent(rank, event);
  rank.control.Close();
  if (rank.end.has_value()) return;
  // The reaper was killed, and its rank with it.
  event.wait_status = SIGKILL;
  event.time_ns = std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  RecordEvent(rank, event);
}

void RankGroup::RecordEvent(Rank& rank, const RankEvent& event) {
  rank.is_suspended = WIFSTOPPED(event.wait_status);
  rank.suspended_too_long_at = rank.kill_suspended_at = Deadline::max();
  if (!rank.is_suspended && !WIFCONTINUED(event.wait_status)) {
    rank.end = event;
    return;
  }
  rank.was_suspended_too_long = false;
  if (rank.is_suspended && times_.suspended_limit != std::chrono::milliseconds::max()) {
    const Deadline suspended_at{std::chrono::nanoseconds(event.time_ns)};
    rank.suspended_too_long_at = suspended_at + times_.suspended_limit;
  }
}

// A suspended process handles no other signal than SIGKILL and SIGCONT.
void RankGroup::KillSuspendedRanks() {
  const Deadline now = Clock::now();
  // While all ranks are suspended, none waits for another, and the time does not count.
  const bool is_job_suspended = absl::c_none_of(
      ranks_, [](const auto& rank) { return !rank->end.has_value() && !rank->is_suspended; });
  for (const auto& rank : ranks_) {
    if (!rank->is_suspended || rank->end.has_value()) continue;
    if (ending_) {
      KillSuspended(*rank);
    } else if (is_job_suspended) {
      for (Deadline* deadline : {&rank->suspended_too_long_at, &rank->kill_suspended_at}) {
        if (*deadline <= now) *deadline = now + times_.suspended_limit;
      }
    } else if (rank->kill_suspended_at <= now) {
      KillSuspended(*rank);
    } else if (rank->suspended_too_long_at <= now) {
      rank->was_suspended_too_long = true;
      rank->suspended_too_long_at = Deadline::max();
      rank->kill_suspended_at = now + kSuspendedSlack;
    }
  }
}

void RankGroup::KillSuspended(Rank& rank) {
  SendSignal(rank, SIGKILL);
  rank.is_suspended = false;
  rank.suspended_too_long_at = rank.kill_suspended_at = Deadline::max();
}

// A rank that ends because of a signal that was passed on has not failed.
bool RankGroup::IsFailure(const Rank& rank) const {
  if (!rank.end.has_value() || rank.end->wait_status == 0) return false;
  const int status = rank.end->wait_status;
  if (EndedByRequest(status)) return false;
  if (WIFSIGNALED(status) && streams_.notices.count(WTERMSIG(status)) > 0) return false;
  return streams_.interrupt == 0 || ExitCodeOf(status) != 128 + streams_.interrupt;
}

int RankGroup::FirstEndedByRequest() const {
  return FirstToEnd([](const Rank& rank) {
    return rank.end.has_value() && EndedByRequest(rank.end->wait_status);
  });
}

int RankGroup::FirstFailureBeforeRequestedEnd() const {
  const int failed = FirstToEnd([this](const Rank& rank) { return IsFailure(rank); });
  const int requested = FirstEndedByRequest();
  if (failed < 0 || requested < 0 || WereAllAskedToEnd()) return failed;
  return ranks_[requested]->end->time_ns < ranks_[failed]->end->time_ns ? -1 : failed;
}

int RankGroup::FirstToEnd(const std::function<bool(const Rank&)>& matches) const {
  int first = -1;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (!matches(*ranks_[i])) continue;
    if (first < 0 || ranks_[i]->end->time_ns < ranks_[first]->end->time_ns) {
      first = static_cast<int>(i);
    }
  }
  return first;
}

// After an interrupt of the job, or a notice, all ranks have been asked to end, and may take their
// time.
bool RankGroup::MustEndOthers() const {
  return FirstFailureBeforeRequestedEnd() >= 0 ||
         (!WereAllAskedToEnd() && FirstEndedByRequest() >= 0);
}

void RankGroup::EndOthers() {
  ending_ = true;
  kill_all_at_ = Clock::now() + times_.grace;
  SendSignalToAll(SIGTERM);
}

void RankGroup::SendSignal(const Rank& rank, int signal) {
  if (!rank.control.is_open() || rank.end.has_value()) return;
  (void)!send(rank.control.get(), &signal, sizeof(signal), MSG_NOSIGNAL);
}

void RankGroup::SendSignalToAll(int signal) {
  for (const auto& rank : ranks_) SendSignal(*rank, signal);
}

void RankGroup::Drain() {
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

// If a batch system signals every process of a job at once, this process may be the last to get its
// copy. Without that copy, a rank that the signal killed would count as failed.
void RankGroup::AwaitLateSignal() {
  const bool signaled = absl::c_any_of(
      ranks_, [](const auto& rank) { return EndedBySignal(rank->end->wait_status); });
  const Deadline deadline = Clock::now() + kSignalArrives;
  while (signaled && !WereAllAskedToEnd() && Clock::now() < deadline) {
    pollfd event = {streams_.signals.fd(), POLLIN, 0};
    poll(&event, 1, MillisecondsUntil(deadline));
    HandleSignals();
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
      if (!IsNotice(signal)) streams->interrupt = signal;
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
