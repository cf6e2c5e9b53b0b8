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

// A wait for one subgroup checks this often whether another subgroup has failed.
constexpr auto kCheckSubgroupsEvery = std::chrono::milliseconds(50);

}  // namespace

std::vector<Communicator*> Subgroups::List() const {
  std::vector<Communicator*> subgroups;
  for (const auto* subgroup :
       {&local, &rail, &all, &local_requests, &rail_requests, &local_pairs, &pairs}) {
    if (*subgroup != nullptr) subgroups.push_back(subgroup->get());
  }
  return subgroups;
}

Group::Group(std::string name, int rank, RankPlacement placement, Subgroups subgroups,
             double grace_seconds)
    : QueuedGroup(&own_engine, std::move(name), rank, placement.size(), 0),
      placement_(std::move(placement)),
      subgroups_(std::move(subgroups)),
      grace_seconds_(grace_seconds) {
  own_engine.Add(this);
}

Group::~Group() {
  AbortUnended();
  own_engine.Stop();
  Leave();
}

void Group::set_grace_period(double seconds) {
  for (Communicator* subgroup : subgroups_.List()) subgroup->set_grace_period(seconds);
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
  return PairTicket((is_local ? subgroups_.local_pairs : subgroups_.pairs)->Issue(pair), is_local);
}

Group::PairOperation Group::PairOf(Ticket ticket) const {
  const int channel = ticket.channel - 1;
  return {channel % 2 == 1 ? subgroups_.local_pairs.get() : subgroups_.pairs.get(),
          {channel / 2, ticket.number}};
}

absl::Status Group::FailureOfSubgroups() {
  // These two have different engines, which together advance all subgroups.
  subgroups_.local->Test(kFailureTicket);
  subgroups_.all->Test(kFailureTicket);
  for (Communicator* subgroup : subgroups_.List()) {
    if (subgroup->HasEnded(kFailureTicket)) return subgroup->Wait(kFailureTicket);
  }
  return absl::OkStatus();
}

absl::Status Group::WaitFor(Communicator& subgroup, Ticket ticket) {
  using Clock = std::chrono::steady_clock;
  while (!subgroup.HasEnded(ticket)) {
    const Clock::time_point look = Clock::now() + kCheckSubgroupsEvery;
    subgroup.SourceOf(ticket)->WaitUntil(
        [&] { return subgroup.HasEnded(ticket) || Clock::now() >= look; });
    if (subgroup.HasEnded(ticket)) break;
    RETURN_IF_ERROR(FailureOfSubgroups());
  }
  return subgroup.Wait(ticket);
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
  if (const absl::Status failure = FailureOfSubgroups(); !failure.ok()) {
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
  const OperationCount before = CountOfSubgroups();
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
  const OperationCount after = CountOfSubgroups();
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
  const std::vector<Communicator*> subgroups = subgroups_.List();
  for (Communicator* subgroup : subgroups) subgroup->Abort(why);
  // A subgroup that another thread advances fails when that thread takes the abort, and until then
  // its operation uses the buffers.
  for (Communicator* subgroup : subgroups) subgroup->Wait(kFailureTicket).IgnoreError();
}

OperationCount Group::CountOfSubgroups() const {
  OperationCount sum;
  for (const Communicator* subgroup :
       {subgroups_.local.get(), subgroups_.rail.get(), subgroups_.all.get()}) {
    if (subgroup == nullptr) continue;
    for (const OperationCount& count : subgroup->traffic()) {
      sum.bytes_sent += count.bytes_sent;
      sum.bytes_staged += count.bytes_staged;
    }
  }
  return sum;
}

// The subgroups count what the user sends.
Traffic Group::traffic() const {
  constexpr auto kSend = static_cast<size_t>(Operation::kSend);
  Traffic traffic = QueuedGroup::traffic();
  for (const Communicator* subgroup : {subgroups_.local_pairs.get(), subgroups_.pairs.get()}) {
    const OperationCount sends = subgroup->traffic()[kSend];
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
                   subgroups_.local->Split(LocalName(name, host_of), local_colors, contents));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> all,
                   subgroups_.all->Split(name, colors, contents));
  std::unique_ptr<Communicator> group;
  if (color >= 0) {
    ASSIGN_OR_RETURN(group, hierarchical::MakeGroup(name, host_of, std::move(local), std::move(all),
                                                    grace_seconds_));
  }
  // No rank may use the new group before all have it: a failure in it would end operations that
  // other ranks still run on its subgroups.
  RETURN_IF_ERROR(WaitFor(*subgroups_.all, subgroups_.all->Barrier()));
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
  Subgroups subgroups;
  ASSIGN_OR_RETURN(subgroups.rail, all->Split(rail, rails));
  ASSIGN_OR_RETURN(subgroups.rail_requests, all->Split(rail, rails, Contents::kControl));
  ASSIGN_OR_RETURN(subgroups.pairs, all->Split(name, together));
  ASSIGN_OR_RETURN(subgroups.local_requests, local->Split(local->name(), locally_together));
  ASSIGN_OR_RETURN(subgroups.local_pairs, local->Split(local->name(), locally_together));
  subgroups.local = std::move(local);
  subgroups.all = std::move(all);
  subgroups.local->set_grace_period(grace_seconds);
  for (const auto* subgroup : {&subgroups.rail, &subgroups.rail_requests, &subgroups.all}) {
    if (*subgroup != nullptr) (*subgroup)->set_grace_period(grace_seconds / 2);
  }
  return std::make_unique<Group>(std::string(name), rank, std::move(placement),
                                 std::move(subgroups), grace_seconds);
}

}  // namespace tessera::comm::hierarchical
