#include "collectives/shm/group.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/shm/requests.h"
#include "core/status/status_macros.h"

namespace tessera::comm::shm {
namespace {

// What takes longer than to wake a thread.
constexpr int64_t kLargeBytes = int64_t{1} << 20;

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace

Group::Group(Host* host, std::string name, int rank, std::vector<int> ranks,
             std::vector<std::shared_ptr<const Segment>> memory)
    : Communicator(std::move(name), rank, static_cast<int>(ranks.size())),
      host_(host),
      ranks_(std::move(ranks)),
      memory_(std::move(memory)),
      inputs_(ranks_.size()),
      outputs_(ranks_.size()) {
  for (const auto& segment : memory_)
    members_.push_back(reinterpret_cast<Member*>(segment->data()));
  channels_.resize(1 + 2 * ranks_.size());
  channels_[0] = std::make_unique<Channel>();
  host_->Add(this);
}

Group::~Group() { host_->Remove(this); }

Group::Channel& Group::ChannelOf(int index) {
  if (channels_[index] == nullptr) channels_[index] = std::make_unique<Channel>();
  return *channels_[index];
}

Ticket Group::Start(const Request& request, const absl::Status& status) {
  int index = 0;
  if (request.operation == Operation::kSend) index = 1 + request.peer;
  if (request.operation == Operation::kReceive) index = 1 + size() + request.peer;
  if (!status.ok()) index = 0;
  std::unique_lock<std::mutex> lock(host_->mutex_);
  Channel& channel = ChannelOf(index);
  if (!status.ok()) Fail(status);
  if (!status_.ok()) return {index, channel.issued};
  if (size() == 1) {
    WorkAlone(request);
    channel.done = ++channel.issued;
    return {index, channel.issued - 1};
  }
  if (channel.full()) {
    lock.unlock();
    host_->WaitUntil([&] { return !channel.full() || !status_.ok(); });
    lock.lock();
  }
  Queued& operation = channel.queue[channel.issued % Channel::kQueue];
  operation = Queued();
  operation.request = request;
  operation.number = channel.issued;
  if (channel.empty()) channel.since = std::chrono::steady_clock::now();
  const Ticket ticket = {index, channel.issued++};
  while (Advance()) {
    // What peers need of this rank is done now, if it is small.
    if (channel.empty() || !IsEager(channel.head().request)) break;
  }
  if (NeedsThread()) host_->WakeThread();
  return ticket;
}

// Operations whose input is posted, and fits into a slot, can do without: only this rank waits.
bool Group::NeedsThread() const {
  if (!status_.ok()) return false;
  for (const auto& channel : channels_) {
    if (channel == nullptr || channel->empty()) continue;
    const Queued& head = channel->queue[channel->done % Channel::kQueue];
    if (channel->issued - channel->done > 1 || !head.posted || !IsEager(head.request)) return true;
  }
  return false;
}

bool Group::HasLarge() const {
  return std::any_of(channels_.begin(), channels_.end(), [](const auto& channel) {
    return channel != nullptr && !channel->empty() &&
           SlotBytes(channel->queue[channel->done % Channel::kQueue].request) > kLargeBytes;
  });
}

bool Group::IsDone(Ticket ticket) const {
  return !status_.ok() || channels_[ticket.channel] == nullptr ||
         channels_[ticket.channel]->done > ticket.number;
}

absl::Status Group::Wait(Ticket ticket) {
  host_->WaitUntil([&] { return IsDone(ticket); });
  const std::lock_guard<std::mutex> lock(host_->mutex_);
  const auto& channel = channels_[ticket.channel];
  if (channel != nullptr && channel->done > ticket.number) return absl::OkStatus();
  return status_;
}

bool Group::Test(Ticket ticket) {
  const std::lock_guard<std::mutex> lock(host_->mutex_);
  host_->AdvanceAll();
  if (!IsDone(ticket)) Check(std::chrono::steady_clock::now());
  return IsDone(ticket);
}

bool Group::Advance() {
  bool moved = false;
  for (size_t index = 0; index < channels_.size(); ++index) {
    if (channels_[index] == nullptr || channels_[index]->empty() || !status_.ok()) continue;
    const int peer = static_cast<int>((index - 1) % ranks_.size());
    if (index == 0) {
      moved = AdvanceCollective() || moved;
    } else if (index <= ranks_.size()) {
      moved = AdvanceSend(*channels_[index], peer) || moved;
    } else {
      moved = AdvanceReceive(*channels_[index], peer) || moved;
    }
  }
  return moved;
}

bool Group::AdvanceCollective() {
  Channel& channel = *channels_[0];
  Queued& operation = channel.head();
  if (!operation.posted) return PostCollective(operation);
  if (!operation.agreed) return Agree(operation);
  if (operation.meeting) {
    if (!Met(operation)) return false;
    operation.meeting = false;
  }
  switch (Work(operation)) {
    case Next::kMore:
      return true;
    case Next::kMeet:
      operation.meeting = true;
      SlotOf(rank(), operation.number).stage.store(++operation.stage);
      RingAll();
      return true;
    case Next::kEnd:
      Mine().completed.store(operation.number + 1);
      RingAll();
      Complete(channel);
      return true;
  }
  return true;
}

void Group::Complete(Channel& channel) {
  ++channel.done;
  channel.since = std::chrono::steady_clock::now();
}

// Fills a slot for peers to read: what is wanted, and the data if it fits.
void Group::Fill(const Request& request, const void* data, int64_t bytes, uint64_t number,
                 Slot& slot) {
  const int64_t size = SizeOf(request.dtype);
  const int64_t input = InputElements(request, rank()) * size;
  const int64_t output = request.operation == Operation::kAllReduce ? input : 0;
  slot.wanted = {WishOf(request), input > 0 ? host_->Locate(request.input, input) : 0,
                 output > 0 ? host_->Locate(request.output, output) : 0};
  Copy(slot.data, data, bytes);
  slot.stage.store(0, std::memory_order_relaxed);
  slot.posted.store(number + 1);
}

bool Group::PostCollective(Queued& operation) {
  for (const Member* member : members_) {
    // The slot's last operation is still being read.
    if (member->completed.load() + kSlots <= operation.number) return false;
  }
  const Request& request = operation.request;
  const int64_t bytes =
      IsEager(request) ? InputElements(request, rank()) * SizeOf(request.dtype) : 0;
  Fill(request, request.input, bytes, operation.number, SlotOf(rank(), operation.number));
  operation.posted = true;
  RingAll();
  return true;
}

bool Group::Agree(Queued& operation) {
  for (int r = 0; r < size(); ++r) {
    if (SlotOf(r, operation.number).posted.load() != operation.number + 1) return false;
  }
  const Wish mine = WishOf(operation.request);
  bool same = true, direct = true;
  for (int r = 0; r < size(); ++r) {
    const Wanted& wanted = SlotOf(r, operation.number).wanted;
    same = same && wanted.wish == mine;
    direct = direct && wanted.input >= 0 && wanted.output >= 0;
  }
  if (!same) {
    std::vector<int> ranks;
    std::vector<Wish> wishes;
    for (int r = 0; r < size(); ++r) {
      ranks.push_back(r);
      wishes.push_back(SlotOf(r, operation.number).wanted.wish);
    }
    Fail(Disagreement(name(), operation.number + 1, ranks, wishes));
    return true;
  }
  operation.agreed = true;
  operation.way = IsEager(operation.request) ? Way::kEager : direct ? Way::kDirect : Way::kStaged;
  CountSent(operation.request.operation, BytesSent(operation.request, operation.way));
  return true;
}

bool Group::Met(const Queued& operation) const {
  for (int r = 0; r < size(); ++r) {
    if (SlotOf(r, operation.number).stage.load() < operation.stage) return false;
  }
  return true;
}

// A message is a slot full of data, or where the data lies. A send has ended when all of it is in
// slots, or when its data has been read where it lies.
bool Group::AdvanceSend(Channel& channel, int peer) {
  Queued& operation = channel.head();
  const Request& request = operation.request;
  const int64_t size = SizeOf(request.dtype);
  const int64_t bytes = request.count * size;
  const bool direct = !IsEager(request) && host_->Locate(request.input, bytes) >= 0;
  const bool first = !operation.posted && operation.position == 0;
  const uint64_t taken = members_[peer]->pair(rank()).taken.load();
  if (operation.posted) {  // direct, and not read before
    if (taken < channel.messages) return false;
    Complete(channel);
    return true;
  }
  if (taken + kSlots <= channel.messages) return false;
  const int64_t now = direct ? 0 : std::min(kSlotBytes, bytes - operation.position);
  Fill(request, static_cast<const char*>(request.input) + operation.position, now, channel.messages,
       Mine().pair(peer).slots[channel.messages % kSlots]);
  ++channel.messages;
  if (first) CountSent(Operation::kSend, bytes);
  operation.position += now;
  if (direct) operation.posted = true;
  if (!direct && operation.position == bytes) Complete(channel);
  Ring(peer);
  return true;
}

bool Group::AdvanceReceive(Channel& channel, int peer) {
  Queued& operation = channel.head();
  const Request& request = operation.request;
  const int64_t bytes = request.count * SizeOf(request.dtype);
  const Slot& slot = members_[peer]->pair(rank()).slots[channel.messages % kSlots];
  if (slot.posted.load() != channel.messages + 1) return false;
  const Wanted& sent = slot.wanted;
  if (sent.wish.count != request.count || sent.wish.dtype != request.dtype) {
    Fail(Disagreement(name(), 0, {peer, rank()}, {sent.wish, WishOf(request)}));
    return true;
  }
  const bool direct = !IsEager(request) && sent.input >= 0;
  const char* const from =
      direct ? host_->Find(ranks_[peer], sent.input) + operation.position : slot.data;
  const int64_t now = std::min(direct ? kPieceBytes : kSlotBytes, bytes - operation.position);
  Copy(static_cast<char*>(request.output) + operation.position, from, now);
  operation.position += now;
  if (!direct || operation.position == bytes) {
    members_[rank()]->pair(peer).taken.store(++channel.messages);
    Ring(peer);
  }
  if (operation.position == bytes) Complete(channel);
  return true;
}

void Group::Ring(int rank) const { host_->BellOf(ranks_[rank]).Ring(); }

void Group::RingAll() const {
  for (int r = 0; r < size(); ++r) {
    if (r != rank()) Ring(r);
  }
}

void Group::Fail(absl::Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  if (members_.empty()) return;
  Member& mine = Mine();
  const std::string text = std::string(status_.message()).substr(0, sizeof(mine.failure) - 1);
  std::memcpy(mine.failure, text.c_str(), text.size() + 1);
  mine.failed.store(1);
  RingAll();
}

std::string Group::RankName(int rank) const {
  const std::vector<int>& job_ranks = host_->options_.job_ranks;
  const int job_rank = job_ranks.empty() ? ranks_[rank] : job_ranks[ranks_[rank]];
  return absl::StrCat("rank ", rank, " (",
                      job_rank == rank ? "" : absl::StrCat(job_rank, " of the job, "), "process ",
                      memory_[rank]->address().process, " on ", HostName(), ", after ",
                      members_[rank]->completed.load(), " collectives)");
}

// Which ranks the first operation of a channel waits for.
std::vector<int> Group::Missing(int index) const {
  const Channel& channel = *channels_[index];
  const Queued& operation = channel.queue[channel.done % Channel::kQueue];
  if (index > 0) return {static_cast<int>((index - 1) % ranks_.size())};
  std::vector<int> missing;
  for (int r = 0; r < size(); ++r) {
    const Slot& slot = SlotOf(r, operation.number);
    const bool there = !operation.posted ? members_[r]->completed.load() + kSlots > operation.number
                                         : slot.posted.load() == operation.number + 1 &&
                                               slot.stage.load() >= operation.stage;
    if (!there && r != rank()) missing.push_back(r);
  }
  return missing;
}

void Group::Check(Time now) {
  if (!status_.ok()) return;
  for (int r = 0; r < size(); ++r) {
    if (r != rank() && members_[r]->failed.load() != 0) {
      const std::string failure = members_[r]->failure;
      status_ = absl::AbortedError(absl::StrCat(RankName(r), " gave up: ", failure));
      return;
    }
  }
  for (size_t index = 0; index < channels_.size(); ++index) {
    const auto& channel = channels_[index];
    if (channel == nullptr || channel->empty()) continue;
    const Queued& operation = channel->queue[channel->done % Channel::kQueue];
    const auto place = [&] {
      return absl::StrCat(Describe(operation.request), ", operation ", operation.number + 1,
                          " of group '", name(), "'");
    };
    const std::vector<int> missing = Missing(static_cast<int>(index));
    for (int r : missing) {
      if (host_->IsAlive(ranks_[r])) continue;
      Fail(absl::UnavailableError(absl::StrCat(RankName(r), " died; waiting in ", place())));
      return;
    }
    const double waited = std::chrono::duration<double>(now - channel->since).count();
    const double at_most = host_->options_.timeout_seconds;
    if (missing.empty() || waited <= at_most) continue;
    std::vector<std::string> stopped, others;
    for (int r : missing) (host_->IsStopped(ranks_[r]) ? stopped : others).push_back(RankName(r));
    if (!stopped.empty()) {
      Fail(absl::DeadlineExceededError(
          absl::StrCat(absl::StrJoin(stopped, ", "), " did not come within ", at_most,
                       " s, for the process is stopped; waiting in ", place())));
    } else if (waited > at_most + patience()) {
      Fail(absl::DeadlineExceededError(absl::StrCat(absl::StrJoin(others, ", "),
                                                    " did not come within ", at_most + patience(),
                                                    " s; waiting in ", place())));
    }
    if (!status_.ok()) return;
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> Group::MakeGroup(absl::string_view name,
                                                               absl::Span<const int> colors) {
  int position = 0;
  std::vector<int> members;  // ranks here
  for (int r = 0; r < size(); ++r) {
    if (colors[r] != colors[rank()]) continue;
    if (r == rank()) position = static_cast<int>(members.size());
    members.push_back(r);
  }
  const bool none = colors[rank()] < 0;
  ASSIGN_OR_RETURN(Host::Region region,
                   Host::Share(Segment::Create(Member::Bytes(static_cast<int>(members.size()))),
                               ExchangeOver(this), name));
  if (none) return nullptr;
  std::vector<int> ranks;
  std::vector<std::shared_ptr<const Segment>> memory;
  for (int r : members) {
    ranks.push_back(ranks_[r]);
    memory.push_back(std::move(region.segments[r]));
  }
  return std::make_unique<Group>(host_, std::string(name), position, ranks, std::move(memory));
}

}  // namespace tessera::comm::shm
