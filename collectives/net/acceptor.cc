#include "collectives/net/acceptor.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kAcceptsAtOnce = 64;
// A rank answers the challenge at once. If there are many connections, one that has not answered
// for this long is dropped to make room.
constexpr milliseconds kGracePeriod{200};
// Pauses before the next attempt to accept: if there is no room, and if the system has no
// descriptors.
constexpr milliseconds kRoomPause{5};
constexpr milliseconds kSystemPause{100};

}  // namespace

void Acceptor::Close() {
  listeners_.clear();
  pending_.clear();
}

Deadline Acceptor::AppendEvents(std::vector<pollfd>* events) {
  const Deadline now = Clock::now();
  const bool may_accept = accept_from_ <= now;
  for (const FileDescriptor& listener : listeners_) {
    events->push_back({may_accept ? listener.get() : -1, POLLIN, 0});
  }
  for (const Pending& pending : pending_) {
    events->push_back({pending.handshake.fd(), POLLIN, 0});
  }
  Deadline next = may_accept || listeners_.empty() ? Deadline::max() : accept_from_;
  if (!pending_.empty()) {
    next = std::min(next, pending_.front().accepted_at + kHandshakeTimeout);
  }
  return next;
}

std::vector<Acceptor::Connection> Acceptor::Advance(absl::Span<const pollfd> events) {
  std::vector<Connection> admitted;
  size_t index = listeners_.size();
  pending_.remove_if([&](Pending& pending) {
    return events[index++].revents != 0 && AdvanceHandshake(pending.handshake, &admitted);
  });
  for (size_t i = 0; i < listeners_.size(); ++i) {
    if (events[i].revents != 0) Accept(listeners_[i]);
  }
  DropOverdue();
  return admitted;
}

bool Acceptor::AdvanceHandshake(AcceptorHandshake& handshake, std::vector<Connection>* admitted) {
  const absl::StatusOr<std::optional<RankClaim>> claim = handshake.Advance(key_);
  if (claim.ok() && !claim->has_value()) return false;
  const absl::Status status = claim.ok() ? admit_(**claim) : claim.status();
  if (status.ok()) {
    admitted->push_back({(*claim)->rank, handshake.Welcome(), handshake.keys()});
  } else if (!absl::IsUnauthenticated(status)) {
    handshake.Refuse(status);
  }
  return true;
}

void Acceptor::Accept(const FileDescriptor& listener) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    if (!MakeRoom()) return;
    absl::StatusOr<FileDescriptor> socket = AcceptFrom(listener);
    if (!socket.ok()) {
      if (!pending_.empty()) pending_.pop_front();
      accept_from_ = Clock::now() + kSystemPause;
      return;
    }
    if (!socket->is_open()) return;
    pending_.emplace_back(*std::move(socket), Clock::now());
  }
}

bool Acceptor::MakeRoom() {
  if (static_cast<int64_t>(pending_.size()) < kMaxUnauthenticated) return true;
  const Deadline now = Clock::now();
  const Deadline grace_ends = pending_.front().accepted_at + kGracePeriod;
  if (grace_ends > now) {
    accept_from_ = std::min(grace_ends, now + kRoomPause);
    return false;
  }
  pending_.pop_front();
  return true;
}

void Acceptor::DropOverdue() {
  const Deadline now = Clock::now();
  while (!pending_.empty() && pending_.front().accepted_at + kHandshakeTimeout <= now) {
    pending_.pop_front();
  }
}

}  // namespace tessera::comm
