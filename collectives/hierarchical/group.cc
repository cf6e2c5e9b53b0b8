#include "collectives/hierarchical/group.h"

#include <algorithm>
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

// Channels of tickets: 0 is the group's own, then those of two other groups in turns.
Ticket PairTicket(Ticket ticket, bool is_local) {
  return {1 + 2 * ticket.channel + (is_local ? 1 : 0), ticket.number};
}

}  // namespace

Group::Group(std::string name, int rank, Placement placement, Parts parts)
    : Communicator(std::move(name), rank, placement.size()),
      placement_(std::move(placement)),
      parts_(std::move(parts)) {
  thread_ = std::thread([this] { RunThread(); });
}

Group::~Group() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (done_ < issued_ && status_.ok()) {
      Break(absl::AbortedError(
          absl::StrCat("group '", name(), "' was ended with operations in flight")));
    }
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::string Group::note() const {
  if (placement_.keeps_order) return "";
  return absl::StrCat("group '", name(),
                      "': hosts do not have the same power of two of neighbouring ranks, so sums "
                      "are taken within each host first: their last bits depend on where the "
                      "ranks are");
}

Ticket Group::Start(const Request& request, const absl::Status& status) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!status.ok() && status_.ok()) Break(status);
  if (!status_.ok()) return {0, issued_};
  if (!IsPair(request)) {
    queue_.push_back(request);
    changed_.notify_all();
    return {0, issued_++};
  }
  lock.unlock();
  const Placement::Place& peer = placement_.places[request.peer];
  const bool is_local = peer.host == place().host;
  Request pair = request;
  if (is_local) pair.peer = peer.local;
  if (request.operation == Operation::kSend) {
    CountSent(Operation::kSend, request.count * SizeOf(request.dtype));
  }
  return PairTicket((is_local ? parts_.local_pairs : parts_.pairs)->Issue(pair), is_local);
}

absl::Status Group::Wait(Ticket ticket) {
  if (ticket.channel > 0) {
    const int channel = ticket.channel - 1;
    const absl::Status status =
        (channel % 2 == 1 ? parts_.local_pairs : parts_.pairs)->Wait({channel / 2, ticket.number});
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!status.ok() && status_.ok()) Break(status);
    return status.ok() ? status : status_;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  while (!IsDone(ticket.number)) {
    if (is_driven_) {
      changed_.wait(lock);
    } else {
      Drive(lock);
    }
  }
  return done_ > ticket.number ? absl::OkStatus() : status_;
}

bool Group::Test(Ticket ticket) {
  if (ticket.channel > 0) {
    const int channel = ticket.channel - 1;
    return (channel % 2 == 1 ? parts_.local_pairs : parts_.pairs)
        ->Test({channel / 2, ticket.number});
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return IsDone(ticket.number);
}

void Group::Drive(std::unique_lock<std::mutex>& lock) {
  const Request request = queue_.front();
  const uint64_t number = done_;
  is_driven_ = true;
  lock.unlock();
  const int64_t before = BytesSent();
  const absl::Status status = Run(request, number);
  int64_t sent = status.ok() ? BytesSent() - before : 0;
  if (IsSmall(request)) {
    const int64_t neighbours = static_cast<int64_t>(host_ranks().size()) - 1;
    sent += neighbours * InputElements(request, rank()) * SizeOf(request.dtype);
  }
  lock.lock();
  is_driven_ = false;
  if (status_.ok() && status.ok()) {
    CountSent(request.operation, sent);
    queue_.pop_front();
    ++done_;
  } else if (status_.ok()) {
    Break(status);
  }
  changed_.notify_all();
}

void Group::RunThread() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (status_.ok() && !is_driven_ && !queue_.empty()) {
      Drive(lock);
    } else {
      changed_.wait(lock);
    }
  }
}

// The lock is held.
void Group::Break(absl::Status status) {
  status_ = std::move(status);
  for (const auto* part : {&parts_.local, &parts_.rail, &parts_.all, &parts_.local_wishes,
                           &parts_.rail_wishes, &parts_.local_pairs, &parts_.pairs}) {
    if (*part != nullptr) (*part)->Abort(status_);
  }
  changed_.notify_all();
}

int64_t Group::BytesSent() const {
  int64_t bytes = 0;
  for (const Communicator* part : {parts_.local.get(), parts_.rail.get(), parts_.all.get()}) {
    if (part == nullptr) continue;
    for (const OperationCount& count : part->traffic()) bytes += count.bytes_sent;
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<Communicator>> Group::MakeGroup(absl::string_view name,
                                                               absl::Span<const int> colors) {
  const int color = colors[rank()];
  std::vector<int> local_colors, host_of;
  for (int r : host_ranks()) local_colors.push_back(colors[r]);
  for (int r = 0; r < size(); ++r) {
    if (colors[r] == color) host_of.push_back(placement_.places[r].host);
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    while (status_.ok() && !queue_.empty()) {
      if (is_driven_) {
        changed_.wait(lock);
      } else {
        Drive(lock);
      }
    }
    RETURN_IF_ERROR(status_);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> local,
                   parts_.local->Split(LocalName(name, host_of), local_colors));
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> all, parts_.all->Split(name, colors));
  if (color < 0) return nullptr;
  return hierarchical::MakeGroup(name, host_of, std::move(local), std::move(all), patience());
}

double PatienceOf(double timeout_seconds) { return std::max(1.0, timeout_seconds / 10); }

std::string LocalName(absl::string_view name, absl::Span<const int> host_of) {
  const bool is_whole = PlaceRanks(host_of).host_count() == 1;
  return is_whole ? std::string(name) : absl::StrCat(name, ", on one host");
}

absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                        absl::Span<const int> host_of,
                                                        std::unique_ptr<Communicator> local,
                                                        std::unique_ptr<Communicator> all,
                                                        double patience_seconds) {
  Placement placement = PlaceRanks(host_of);
  if (placement.host_count() == 1) return local;
  if (placement.host_count() == placement.size()) return all;
  std::vector<int> rails;
  for (const Placement::Place& place : placement.places) {
    rails.push_back(place.local < placement.rails ? place.local : -1);
  }
  const int rank = all->rank();
  const std::string rail =
      absl::StrCat(name, ", rank ", placement.places[rank].local, " of each host");
  const std::vector<int> together(placement.size(), 0);
  const std::vector<int> locally_together(local->size(), 0);
  Parts parts;
  ASSIGN_OR_RETURN(parts.rail, all->Split(rail, rails));
  ASSIGN_OR_RETURN(parts.rail_wishes, all->Split(rail, rails));
  ASSIGN_OR_RETURN(parts.pairs, all->Split(name, together));
  ASSIGN_OR_RETURN(parts.local_wishes, local->Split(local->name(), locally_together));
  ASSIGN_OR_RETURN(parts.local_pairs, local->Split(local->name(), locally_together));
  parts.local = std::move(local);
  parts.all = std::move(all);
  parts.local->set_patience(patience_seconds);
  for (const auto* part : {&parts.rail, &parts.rail_wishes, &parts.all}) {
    if (*part != nullptr) (*part)->set_patience(patience_seconds / 2);
  }
  auto group =
      std::make_unique<Group>(std::string(name), rank, std::move(placement), std::move(parts));
  group->set_patience(patience_seconds);
  return group;
}

}  // namespace tessera::comm::hierarchical
