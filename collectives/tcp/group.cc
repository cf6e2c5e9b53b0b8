#include "collectives/tcp/group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/tcp/requests.h"
#include "core/status/status_macros.h"

namespace tessera::comm::tcp {
namespace {

// What takes longer than to wake a thread.
constexpr int64_t kLargeBytes = 1 << 20;

}  // namespace

Group::Group(Network* network, std::string name, int rank, std::vector<int> ranks, uint64_t id)
    : Communicator(std::move(name), rank, static_cast<int>(ranks.size())),
      network_(network),
      ranks_(std::move(ranks)),
      id_(id),
      exchanged_(ranks_.size()),
      failures_(ranks_.size()),
      inputs_(ranks_.size()) {
  channels_.resize(1 + 2 * ranks_.size());
  channels_[0] = std::make_unique<Channel>();
  network_->Add(this);
}

Group::~Group() { network_->Remove(this); }

Group::Channel& Group::ChannelOf(int index) {
  if (channels_[index] == nullptr) channels_[index] = std::make_unique<Channel>();
  return *channels_[index];
}

int Group::MemberOf(int rank) const {
  return static_cast<int>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

const Network::Line& Group::LineTo(int rank) const { return *network_->lines_[ranks_[rank]]; }

Ticket Group::Start(const Request& request, const absl::Status& status) {
  int index = 0;
  if (request.operation == Operation::kSend) index = 1 + request.peer;
  if (request.operation == Operation::kReceive) index = 1 + size() + request.peer;
  if (!status.ok()) index = 0;
  std::unique_lock<std::mutex> lock(network_->mutex_);
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
    network_->WaitUntil([&] { return !channel.full() || !status_.ok(); });
    lock.lock();
  }
  Queued& operation = channel.queue[channel.issued % Channel::kQueue];
  operation = Queued();
  operation.request = request;
  operation.number = channel.issued;
  if (channel.empty()) channel.moved = std::chrono::steady_clock::now();
  const Ticket ticket = {index, channel.issued++};
  // What peers need of this rank is done now, if it is small.
  while (Advance()) {
  }
  if (network_->AnyNeedsThread()) network_->WakeThread();
  return ticket;
}

bool Group::NeedsThread() const {
  if (!status_.ok()) return false;
  for (const auto& channel : channels_) {
    if (channel == nullptr || channel->empty()) continue;
    const Queued& head = channel->head();
    // Otherwise only this rank waits.
    if (channel->issued - channel->done > 1 || !head.posted || !IsEager(head.request)) return true;
  }
  return false;
}

bool Group::HasLarge() const {
  return std::any_of(channels_.begin(), channels_.end(), [](const auto& channel) {
    if (channel == nullptr || channel->empty()) return false;
    const Request& request = channel->head().request;
    return request.count * SizeOf(request.dtype) > kLargeBytes;
  });
}

bool Group::IsDone(Ticket ticket) const {
  return !status_.ok() || channels_[ticket.channel] == nullptr ||
         channels_[ticket.channel]->done > ticket.number;
}

absl::Status Group::Wait(Ticket ticket) {
  network_->WaitUntil([&] { return IsDone(ticket); });
  const std::lock_guard<std::mutex> lock(network_->mutex_);
  const auto& channel = channels_[ticket.channel];
  if (channel != nullptr && channel->done > ticket.number) return absl::OkStatus();
  return status_;
}

bool Group::Test(Ticket ticket) {
  std::unique_lock<std::mutex> lock(network_->mutex_);
  if (!IsDone(ticket) && !network_->is_driven_) {
    network_->Turn(lock, Network::Pause::kNone);
    network_->changed_.notify_all();
  }
  return IsDone(ticket);
}

void Group::WorkAlone(const Request& request) {
  const int64_t count =
      IsCut(request.operation) ? PartOf(request.count, request.part, 0).size : request.count;
  if (request.operation == Operation::kReduceScatter) {
    return ReduceOwnPart(request, {request.input}, 0, count);
  }
  Copy(request.output, request.input, count * SizeOf(request.dtype));
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

void Group::Complete(Channel& channel) {
  ++channel.done;
  channel.moved = std::chrono::steady_clock::now();
  if (&channel == channels_[0].get()) {
    EndFlows();
    for (Exchanged& each : exchanged_) each.heard.Forget(channel.done);
  } else {
    channel.out = Outflow();
    channel.in = Inflow();
    channel.heard.Forget(channel.done);
  }
}

void Group::EndFlows() {
  for (Exchanged& each : exchanged_) {
    each.met = false;
    for (int stage : {0, 1}) {
      network_->ReturnScratch(std::move(each.in[stage].scratch));
      each.in[stage] = Inflow();
      each.out[stage] = Outflow();
    }
  }
  reduced_ = 0;
}

// A message of few bytes has been sent when it is under way.
bool Group::AdvanceSend(Channel& channel, int peer) {
  Queued& operation = channel.head();
  const Request& request = operation.request;
  const int64_t bytes = request.count * SizeOf(request.dtype);
  const bool eager = IsEager(request);
  if (!operation.posted) {
    if (operation.number >= channel.heard.wishes + kSendsAhead) return false;
    Post(operation, Lane::kSend, peer, Bytes(request.input, 0), eager ? bytes : 0);
    operation.posted = true;
    if (eager) Complete(channel);
    return true;
  }
  if (!operation.agreed) {
    const Wish* const wish = channel.heard.Find(operation.number);
    if (wish == nullptr || !PairAgrees(operation, peer, wish->header)) return false;
    operation.agreed = true;
    channel.out = {Bytes(request.input, 0), bytes, bytes};
  }
  const bool moved = SendPieces(operation, Lane::kSend, 1, peer, channel.out);
  if (moved) channel.moved = std::chrono::steady_clock::now();
  if (!channel.out.done()) return moved;
  Complete(channel);
  return true;
}

bool Group::AdvanceReceive(Channel& channel, int peer) {
  Queued& operation = channel.head();
  const Request& request = operation.request;
  const int64_t bytes = request.count * SizeOf(request.dtype);
  if (!operation.posted) {
    operation.posted = true;
    if (!IsEager(request)) channel.in = {Bytes(request.output, 0), bytes};
    Post(operation, Lane::kReceive, peer, nullptr, 0);
    return true;
  }
  const Wish* const wish = channel.heard.Find(operation.number);
  if (wish == nullptr || !PairAgrees(operation, peer, wish->header)) return false;
  if (!channel.in.done()) return false;
  if (IsEager(request)) Copy(request.output, wish->data.data(), bytes);
  Complete(channel);
  return true;
}

bool Group::PairAgrees(const Queued& operation, int peer, const Header& theirs) {
  const Request& request = operation.request;
  const bool has_data = request.operation == Operation::kReceive && IsEager(request);
  const int64_t bytes = has_data ? request.count * SizeOf(request.dtype) : 0;
  if (theirs.count == request.count && theirs.dtype == request.dtype && theirs.bytes == bytes) {
    return true;
  }
  Fail(Disagreement(name(), 0, {peer, rank()}, {WishOf(theirs), WishOf(request)}));
  return false;
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
  // The first member names the group.
  const uint64_t mine = (static_cast<uint64_t>(network_->rank()) << 32) | ++network_->groups_made_;
  ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                   ExchangeOver(this)(name, absl::StrCat(mine)));
  uint64_t id = 0;
  if (!absl::SimpleAtoi(ids[members[0]], &id)) {
    const std::lock_guard<std::mutex> lock(network_->mutex_);
    Fail(absl::InternalError(
        absl::StrCat("'", ids[members[0]], "' of ", RankName(members[0]), " is no group")));
    return status_;
  }
  std::unique_ptr<Communicator> group;
  if (colors[rank()] >= 0) {
    std::vector<int> ranks;
    for (int r : members) ranks.push_back(ranks_[r]);
    group = std::make_unique<Group>(network_, std::string(name), position, ranks, id);
  }
  // Nobody sends to it before all have it.
  RETURN_IF_ERROR(Wait(Barrier()));
  return group;
}

}  // namespace tessera::comm::tcp
