#include "collectives/tcp/group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera::comm::tcp {

Group::Group(Network* network, ProgressEngine* engine, std::string name, int rank,
             std::vector<int> ranks, uint64_t id, double timeout_seconds, Contents contents)
    : QueuedGroup(engine, std::move(name), rank, static_cast<int>(ranks.size()), timeout_seconds),
      network_(network),
      ranks_(std::move(ranks)),
      id_(id),
      contents_(contents),
      first_(1 + 2 * ranks_.size()),
      messages_(1 + 2 * ranks_.size()),
      flows_(ranks_.size()),
      failures_(ranks_.size()),
      inputs_(ranks_.size()) {
  engine_->Add(this);
  const MutexLock lock(&mutex_);
  network_->AddReceiver(id_, this);
}

Group::~Group() {
  Leave();
  const MutexLock lock(&mutex_);
  network_->RemoveReceiver(id_);
  EndFlows();
}

int Group::MemberOf(int rank) const {
  return static_cast<int>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

// Small: all data for a peer are sent together with the request.
bool Group::IsSmall(const Request& request) const {
  return (HasParts(request.operation) ? request.part : request.count) * SizeOf(request.dtype) <=
         kEagerBytes;
}

bool Group::IsPosted(int channel) const { return first_[channel].is_posted; }

bool Group::AdvanceFirst(int channel) {
  if (channel == 0) return AdvanceCollective();
  return IsToPeer(channel) ? AdvanceSend(PeerOf(channel)) : AdvanceReceive(PeerOf(channel));
}

void Group::EndMessage(int channel) {
  first_[channel] = FirstOperation();
  messages_[channel].out = Outflow();
  messages_[channel].in = Inflow();
  Complete(channel);
  messages_[channel].requests.Forget(Done(channel));
}

void Group::EndCollective() {
  first_[0] = FirstOperation();
  EndFlows();
  Complete(0);
  for (PeerFlows& flows : flows_) flows.requests.Forget(Done(0));
}

void Group::EndFlows() {
  for (PeerFlows& flows : flows_) {
    flows.is_agreed = false;
    for (int stage : {0, 1}) {
      network_->ReturnScratch(std::move(flows.in[stage].scratch));
      flows.in[stage] = Inflow();
      flows.out[stage] = Outflow();
    }
  }
  reduced_ = 0;
}

// A send of few bytes ends once its request is posted.
bool Group::AdvanceSend(int peer) {
  const int channel = ChannelTo(peer);
  FirstOperation& first = first_[channel];
  Messages& messages = messages_[channel];
  const Request& request = First(channel);
  const int64_t bytes = request.count * SizeOf(request.dtype);
  if (!first.is_posted) {
    if (Done(channel) >= messages.requests.received + kSendsAhead) return false;
    const bool eager = IsSmall(request);
    Post(channel, Lane::kSend, peer, Bytes(request.input, 0), eager ? bytes : 0);
    first.is_posted = true;
    if (eager) EndMessage(channel);
    return true;
  }
  if (!first.is_agreed) {
    const PeerRequest* const theirs = messages.requests.Find(Done(channel));
    if (theirs == nullptr || !MatchesOrFails(request, peer, theirs->header)) return false;
    first.is_agreed = true;
    messages.out = {Bytes(request.input, 0), bytes, bytes};
  }
  const bool moved = SendPieces(channel, Lane::kSend, 1, peer, messages.out);
  if (moved) Moved(channel);
  if (!messages.out.done()) return moved;
  EndMessage(channel);
  return true;
}

bool Group::AdvanceReceive(int peer) {
  const int channel = ChannelFrom(peer);
  Messages& messages = messages_[channel];
  const Request& request = First(channel);
  const int64_t bytes = request.count * SizeOf(request.dtype);
  if (!first_[channel].is_posted) {
    first_[channel].is_posted = true;
    if (!IsSmall(request)) messages.in = {Bytes(request.output, 0), bytes};
    Post(channel, Lane::kReceive, peer, nullptr, 0);
    return true;
  }
  const PeerRequest* const theirs = messages.requests.Find(Done(channel));
  if (theirs == nullptr || !MatchesOrFails(request, peer, theirs->header)) return false;
  if (!messages.in.done()) return false;
  if (IsSmall(request)) Copy(request.output, theirs->data.data(), bytes);
  EndMessage(channel);
  return true;
}

bool Group::MatchesOrFails(const Request& request, int peer, const Header& theirs) {
  const bool has_data = request.operation == Operation::kReceive && IsSmall(request);
  const int64_t bytes = has_data ? request.count * SizeOf(request.dtype) : 0;
  if (theirs.request.count == request.count && theirs.request.dtype == request.dtype &&
      theirs.bytes == bytes) {
    return true;
  }
  Fail(Disagreement(name(), 0, {theirs.request, DescriptorOf(request)}, {peer, rank()}));
  return false;
}

absl::StatusOr<std::unique_ptr<Communicator>> Group::MakeGroup(absl::string_view name,
                                                               absl::Span<const int> colors,
                                                               Contents contents) {
  const SplitMembers members = MembersOf(colors, rank());
  uint64_t id = 0;
  {
    const MutexLock lock(&mutex_);
    id = network_->NextGroup();
  }
  // The first member chooses the group's id.
  ASSIGN_OR_RETURN(const std::vector<std::string> ids, ExchangeOver(this)(name, absl::StrCat(id)));
  if (!absl::SimpleAtoi(ids[members.ranks[0]], &id)) {
    const MutexLock lock(&mutex_);
    Fail(
        absl::InternalError(absl::StrCat("malformed group number from ", RankName(members.ranks[0]),
                                         ": '", ids[members.ranks[0]], "'")));
    return status();
  }
  std::unique_ptr<Communicator> group;
  if (colors[rank()] >= 0) {
    std::vector<int> ranks;
    for (int r : members.ranks) ranks.push_back(ranks_[r]);
    group = std::make_unique<Group>(network_, engine_, std::string(name), members.position,
                                    std::move(ranks), id, timeout_seconds(),
                                    contents_ == Contents::kControl ? contents_ : contents);
  }
  // No rank may send to the group before all have it.
  RETURN_IF_ERROR(Wait(Barrier()));
  return group;
}

}  // namespace tessera::comm::tcp
