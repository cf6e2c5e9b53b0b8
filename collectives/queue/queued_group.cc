#include "collectives/queue/queued_group.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/requests.h"

namespace tessera::comm {
namespace {

// An operation on more bytes than this takes longer than waking a thread.
constexpr int64_t kLargeBytes = int64_t{1} << 20;

// Runs an operation of a group of one rank.
void RunAlone(const Request& request) {
  const int64_t count = InputElements(request, 0);
  if (request.operation == Operation::kReduceScatter) {
    return ReduceOwnPart(request, {request.input}, 0, OutputElements(request, 0));
  }
  Copy(request.output, request.input, count * SizeOf(request.dtype));
}

}  // namespace

QueuedGroup::QueuedGroup(ProgressEngine* engine, std::string name, int rank, int size,
                         double timeout_seconds)
    : Communicator(std::move(name), rank, size),
      engine_(engine),
      mutex_(engine->mutex()),
      timeout_seconds_(timeout_seconds),
      issued_(1 + 2 * size),
      queues_(1 + 2 * size),
      done_(new std::atomic<uint64_t>[1 + 2 * size]()) {}

Ticket QueuedGroup::Start(const Request& request, const absl::Status& status) {
  const int channel = status.ok() ? ChannelOf(request) : 0;
  return {channel, engine_->Submit({this, channel, request, status}, &issued_[channel])};
}

void QueuedGroup::TakeSubmission(ProgressEngine::Submission submission) {
  if (!submission.error.ok()) Fail(std::move(submission.error));
  if (!status_.ok()) return;
  const int channel = submission.channel;
  if (queues_[channel] == nullptr) queues_[channel] = std::make_unique<Queue>();
  Queue& queue = *queues_[channel];
  if (queue.requests.empty()) queue.since = Now();
  queue.requests.push_back(submission.request);
  if (!RunsAlone()) return;
  RunAlone(submission.request);
  Complete(channel);
}

void QueuedGroup::Complete(int channel) {
  Queue& queue = *queues_[channel];
  queue.requests.pop_front();
  queue.since = Now();
  done_[channel].store(Done(channel) + 1, std::memory_order_release);
  NoteCompletion();
}

void QueuedGroup::Fail(absl::Status why, bool is_first) {
  if (!status_.ok()) return;
  status_ = std::move(why);
  OnFailure(status_, is_first);
  if (!IsWorkedOn()) EndAfterFailure();
}

void QueuedGroup::EndAfterFailure() {
  has_failed_.store(true, std::memory_order_release);
  NoteCompletion();
}

bool QueuedGroup::HasUnended() const {
  if (has_failed_.load(std::memory_order_acquire)) return false;
  for (size_t channel = 0; channel < issued_.size(); ++channel) {
    if (issued_[channel] != Done(static_cast<int>(channel))) return true;
  }
  return false;
}

void QueuedGroup::AbortUnended() {
  if (!HasUnended()) return;
  Start(Request(), absl::AbortedError(absl::StrCat("group '", name(),
                                                   "' was destroyed with operations in flight")));
}

void QueuedGroup::Leave() {
  AbortUnended();
  engine_->Remove(this);
}

std::string QueuedGroup::RankName(int rank) const { return absl::StrCat("rank ", rank); }

bool QueuedGroup::HasEnded(Ticket ticket) const {
  return Done(ticket.channel) > ticket.number || has_failed_.load(std::memory_order_acquire);
}

absl::Status QueuedGroup::Wait(Ticket ticket) {
  engine_->WaitUntil([&] { return HasEnded(ticket); });
  if (Done(ticket.channel) > ticket.number) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  return status_;
}

bool QueuedGroup::Test(Ticket ticket) {
  if (!HasEnded(ticket)) engine_->Poll();
  return HasEnded(ticket);
}

bool QueuedGroup::Advance() {
  bool moved = false;
  for (size_t index = 0; index < queues_.size(); ++index) {
    const int channel = static_cast<int>(index);
    if (!IsEmpty(channel) && status_.ok()) moved = AdvanceFirst(channel) || moved;
  }
  return moved;
}

bool QueuedGroup::AdvanceSmall() {
  while (Advance()) {
    for (size_t index = 0; index < queues_.size(); ++index) {
      const int channel = static_cast<int>(index);
      if (!IsEmpty(channel) && !IsSmall(First(channel))) return status_.ok();
    }
  }
  return false;
}

bool QueuedGroup::HasOperations() const {
  if (!status_.ok()) return false;
  return std::any_of(queues_.begin(), queues_.end(), [](const std::unique_ptr<Queue>& queue) {
    return queue != nullptr && !queue->requests.empty();
  });
}

// A small operation that is posted needs no thread: peers need nothing more from this rank, and
// only this rank waits for it.
bool QueuedGroup::NeedsThread() const {
  if (!status_.ok()) return false;
  for (size_t index = 0; index < queues_.size(); ++index) {
    const int channel = static_cast<int>(index);
    if (IsEmpty(channel)) continue;
    if (queues_[index]->requests.size() > 1 || !IsPosted(channel) || !IsSmall(First(channel))) {
      return true;
    }
  }
  return false;
}

bool QueuedGroup::HasLargeOperation() const {
  return std::any_of(queues_.begin(), queues_.end(), [](const std::unique_ptr<Queue>& queue) {
    if (queue == nullptr || queue->requests.empty()) return false;
    const Request& request = queue->requests.front();
    return request.count * SizeOf(request.dtype) > kLargeBytes;
  });
}

std::string QueuedGroup::DescribeFirst(int channel) const {
  if (IsEmpty(channel)) return absl::StrCat("group '", name(), "'");
  return absl::StrCat(Describe(First(channel)), ", operation ", Done(channel) + 1, " of group '",
                      name(), "'", Progress(channel));
}

void QueuedGroup::Check(Time now) {
  if (status_.ok()) CheckFailures();
  for (size_t index = 0; index < queues_.size() && status_.ok(); ++index) {
    const int channel = static_cast<int>(index);
    if (!IsEmpty(channel)) CheckChannel(channel, now);
  }
}

void QueuedGroup::CheckChannel(int channel, Time now) {
  int lowest_order = INT32_MAX;
  std::vector<int> missing;  // the ranks of this order: they keep the others waiting
  for (int r = 0; r < size(); ++r) {
    const int order = r == rank() ? 0 : WaitsFor(channel, r);
    if (order == 0) continue;
    if (const absl::optional<Departure> departure = DepartureOf(r); departure.has_value()) {
      // The rank may have failed after the last look at failures here, which it reports before it
      // leaves, or have done its part after the last step here.
      CheckFailures();
      if (Advance() || !status_.ok() || IsEmpty(channel) || WaitsFor(channel, r) == 0) return;
      const std::string why = departure->why.empty() ? "" : absl::StrCat(" (", departure->why, ")");
      Fail(absl::UnavailableError(absl::StrCat(RankName(r), " ", departure->what, "; waiting in ",
                                               DescribeFirst(channel), why)));
      return;
    }
    if (order < lowest_order) missing.clear();
    lowest_order = std::min(lowest_order, order);
    if (order == lowest_order) missing.push_back(r);
  }
  const double waited = Waited(channel, now);
  if (missing.empty() || waited <= timeout_seconds_) return;
  std::vector<std::string> stopped, late;
  for (int r : missing) (IsStopped(r) ? stopped : late).push_back(RankName(r));
  if (!stopped.empty()) {
    Fail(absl::DeadlineExceededError(
        absl::StrCat(absl::StrJoin(stopped, ", "), " did not come within ", timeout_seconds_,
                     " s, because the process is stopped; waiting in ", DescribeFirst(channel))));
  } else if (const double at_most = timeout_seconds_ + grace_period(); waited > at_most) {
    Fail(absl::DeadlineExceededError(absl::StrCat(absl::StrJoin(late, ", "),
                                                  " did not come within ", at_most,
                                                  " s; waiting in ", DescribeFirst(channel))));
  }
}

SplitMembers MembersOf(absl::Span<const int> colors, int rank) {
  SplitMembers members;
  for (int r = 0; r < static_cast<int>(colors.size()); ++r) {
    if (colors[r] != colors[rank]) continue;
    if (r == rank) members.position = static_cast<int>(members.ranks.size());
    members.ranks.push_back(r);
  }
  return members;
}

}  // namespace tessera::comm
