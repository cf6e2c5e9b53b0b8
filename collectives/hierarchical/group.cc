#include "collectives/hierarchical/group.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/hierarchical/hierarchical.h"
#include "collectives/requests.h"
#include "core/status/status_macros.h"

namespace tessera::comm::hierarchical {
namespace {

bool IsPair(const Request& request) {
  return request.operation == Operation::kSend || request.operation == Operation::kReceive;
}

// Maps the ticket of an operation in one of two other groups to a ticket of this group. Channel 0
// is the group's own; the channels of the two others follow alternately.
Ticket PairTicket(Ticket ticket, bool is_local) {
  return {1 + 2 * ticket.channel + (is_local ? 1 : 0), ticket.number};
}

// A wait for one part checks this often whether another part has failed.
constexpr auto kLookAtPartsEvery = std::chrono::milliseconds(50);

}  // namespace

std::vector<Communicator*> Parts::List() const {
  std::vector<Communicator*> parts;
  for (const auto* part :
       {&local, &rail, &all, &local_requests, &rail_requests, &local_pairs, &pairs}) {
    if (*part != nullptr) parts.push_back(part->get());
  }
  return parts;
}

Group::Group(std::string name, int rank, RankPlacement placement, Parts parts, double grace_seconds)
    : QueuedGroup(&own_engine, std::move(name), rank, placement.size(), 0),
      placement_(std::move(placement)),
      parts_(std::move(parts)),
      grace_seconds_(grace_seconds) {
  own_engine.Add(this);
}

Group::~Group() {
  AbortUnended();
  own_engine.Stop();
  Leave();
}

void Group::set_grace_period(double seconds) {
  for (Communicator* part : parts_.List()) part->set_grace_period(seconds);
}

std::string Group::note() const {
  if (placement_.keeps_order) return "";
  return absl::StrCat("group '", name(),
                      "': hosts do not have the same power of two of consecutive ranks, so sums "
                      "are taken within each host first: their last bits depend on where the "
                      "ranks are");
}

Ticket Group::Start(const Request& request, const absl::Status& status) {
  if (!status.ok() || !IsPair(request)) return QueuedGroup::Start(request, status);
  const RankPlacement::Place& peer = placement_.places[request.peer];
  const bool is_local = peer.host == place().host;
  Request pair = request;
  if (is_local) pair.peer = peer.local;
  return PairTicket((is_local ? parts_.local_pairs : parts_.pairs)->Issue(pair), is_local);
}

Group::PairOperation Group::PairOf(Ticket ticket) const {
  const int channel = ticket.channel - 1;
  return {channel % 2 == 1 ? parts_.local_pairs.get() : parts_.pairs.get(),
          {channel / 2, ticket.number}};
}

absl::Status Group::FailureOfParts() {
  // These two have different engines, which together advance all parts.
  parts_.local->Test(kFailureTicket);
  parts_.all->Test(kFailureTicket);
  for (Communicator* part : parts_.List()) {
    if (part->HasEnded(kFailureTicket)) return part->Wait(kFailureTicket);
  }
  return absl::OkStatus();
}

absl::Status Group::WaitFor(Communicator& part, Ticket ticket) {
  using Clock = std::chrono::steady_clock;
  while (!part.HasEnded(ticket)) {
    const Clock::time_point look = Clock::now() + kLookAtPartsEvery;
    part.SourceOf(ticket)->WaitUntil([&] { return part.HasEnded(ticket) || Clock::now() >= look; });
    if (part.HasEnded(ticket)) break;
    RETURN_IF_ERROR(FailureOfParts());
  }
  return part.Wait(ticket);
}

absl::Status Group::Wait(Ticket ticket) {
  if (ticket.channel == 0) return QueuedGroup::Wait(ticket);
  const PairOperation pair = PairOf(ticket);
  absl::Status ended = WaitFor(*pair.group, pair.ticket);
  if (ended.ok()) return ended;
  const MutexLock lock(&mutex_);
  Fail(std::move(ended));
  return status();
}

bool Group::Test(Ticket ticket) {
  if (ticket.channel == 0) return HasEnded(ticket);
  const PairOperation pair = PairOf(ticket);
  if (pair.group->Test(pair.ticket)) return true;
  if (const absl::Status failure = FailureOfParts(); !failure.ok()) {
    const MutexLock lock(&mutex_);
    Fail(failure);
  }
  return pair.group->HasEnded(pair.ticket);
}

bool Group::HasEnded(Ticket ticket) const {
  if (ticket.channel == 0) return QueuedGroup::HasEnded(ticket);
  const PairOperation pair = PairOf(ticket);
  return pair.group->HasEnded(pair.ticket);
}

CompletionSource* Group::SourceOf(Ticket ticket) {
  if (ticket.channel == 0) return &own_engine;
  const PairOperation pair = PairOf(ticket);
  return pair.group->SourceOf(pair.ticket);
}

bool Group::AdvanceFirst(int channel) {
  if (is_running_) return false;
  is_running_ = true;
  const Request request = First(channel);
  const uint64_t number = Done(channel);
  const OperationCount before = CountOfParts();
  absl::Status ended;
  engine_->AssertMutexHeld();
  engine_->RunUnlocked([&] { ended = Run(request, number); });
  is_running_ = false;
  if (!is_ok()) {
    EndAfterFailure();
    return true;
  }
  if (!ended.ok()) {
    Fail(std::move(ended));
    return true;
  }
  const OperationCount after = CountOfParts();
  int64_t sent = after.bytes_sent - before.bytes_sent;
  if (IsEager(request)) {
    const int64_t others = static_cast<int64_t>(host_ranks().size()) - 1;
    sent += others * InputElements(request, rank()) * SizeOf(request.dtype);
  }
  CountSent(request.operation, sent);
  CountStaged(request.operation, after.bytes_staged - before.bytes_staged);
  Complete(channel);
  return true;
}

void Group::OnFailure(const absl::Status& why, bool /*is_first*/) {
  const std::vector<Communicator*> parts = parts_.List();
  for (Communicator* part : parts) part->Abort(why);
  // A part that another thread advances fails when that thread takes the abort, and until then its
  // operation uses the buffers.
  for (Communicator* part : parts) part->Wait(kFailureTicket).IgnoreError();
}

OperationCount Group::CountOfParts() const {
  OperationCount sum;
  for (const Communicator* part : {parts_.local.get(), parts_.rail.get(), parts_.all.get()}) {
    if (part == nullptr) continue;
    for (const OperationCount& count : part->traffic()) {
      sum.bytes_sent += count.bytes_sent;
      sum.bytes_staged += count.bytes_staged;
    }
  }
  return sum;
}

// The parts count what the user sends.
Traffic Group::traffic() const {
  constexpr auto kSend = static_cast<size_t>(Operation::kSend);
  Traffic traffic = QueuedGroup::traffic();
  for (const Communicator* part : {parts_.local_pairs.get(), parts_.pairs.get()}) {
    const OperationCount sends = part->traffic()[kSend];
    traffic[kSend].bytes_sent += sends.bytes_sent;
    traffic[kSend].bytes_staged += sends.bytes_staged;
  }
  return traffic;
}

absl::StatusOr<std::unique_ptr<Communicator>> Group::MakeGroup(absl::string_view name,
                                                               absl::Span<const int> colors,
                                                               Contents contents) {
  const int color = colors[rank()];
  std::vector<int> local_colors, host_of;
  for (int r : host_ranks()) local_colors.push_back(colors[r]);
  for (int r = 0; r < size(); ++r) {
    if (colors[r] == color) host_of.push_back(placement_.places[r].host);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> local,
                   parts_.local->Split(LocalName(name, host_of), local_colors, contents));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> all, parts_.all->Split(name, colors, contents));
  std::unique_ptr<Communicator> group;
  if (color >= 0) {
    ASSIGN_OR_RETURN(group, hierarchical::MakeGroup(name, host_of, std::move(local), std::move(all),
                                                    grace_seconds_));
  }
  // No rank may use the new group before all have it: a failure in it would end operations that
  // other ranks still run on its parts.
  RETURN_IF_ERROR(WaitFor(*parts_.all, parts_.all->Barrier()));
  return group;
}

double GracePeriodOf(double timeout_seconds) { return std::max(1.0, timeout_seconds / 10); }

std::string LocalName(absl::string_view name, absl::Span<const int> host_of) {
  const bool is_all = PlaceRanks(host_of).host_count() == 1;
  return is_all ? std::string(name) : absl::StrCat(name, ", on one host");
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                        absl::Span<const int> host_of,
                                                        std::unique_ptr<Communicator> local,
                                                        std::unique_ptr<Communicator> all,
                                                        double grace_seconds) {
  RankPlacement placement = PlaceRanks(host_of);
  if (placement.host_count() == 1) return local;
  if (placement.host_count() == placement.size()) return all;
  std::vector<int> rails;
  for (const RankPlacement::Place& place : placement.places) {
    rails.push_back(place.local < placement.rails ? place.local : -1);
  }
  const int rank = all->rank();
  const std::string rail =
      absl::StrCat(name, ", rank ", placement.places[rank].local, " of each host");
  const std::vector<int> together(placement.size(), 0);
  const std::vector<int> locally_together(local->size(), 0);
  Parts parts;
  ASSIGN_OR_RETURN(parts.rail, all->Split(rail, rails));
  ASSIGN_OR_RETURN(parts.rail_requests, all->Split(rail, rails, Contents::kControl));
  ASSIGN_OR_RETURN(parts.pairs, all->Split(name, together));
  ASSIGN_OR_RETURN(parts.local_requests, local->Split(local->name(), locally_together));
  ASSIGN_OR_RETURN(parts.local_pairs, local->Split(local->name(), locally_together));
  parts.local = std::move(local);
  parts.all = std::move(all);
  parts.local->set_grace_period(grace_seconds);
  for (const auto* part : {&parts.rail, &parts.rail_requests, &parts.all}) {
    if (*part != nullptr) (*part)->set_grace_period(grace_seconds / 2);
  }
  return std::make_unique<Group>(std::string(name), rank, std::move(placement), std::move(parts),
                                 grace_seconds);
}

}  // namespace tessera::comm::hierarchical
