#include "collectives/tcp/connections.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace tessera::comm::tcp {
namespace {

// The event of wake_; other events are numbers of ranks.
constexpr uint32_t kWakeEvent = UINT32_MAX;

absl::Status AddToPoll(int poll, int descriptor, uint32_t data) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u32 = data;
  if (epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot wait for connections");
}

}  // namespace

bool Connections::Place(int from, const Header& header, char** address) {
  if (header.kind == Kind::kBye) return true;
  Receiver* const receiver = ReceiverOf(header.group);
  connections_[from]->is_placed = receiver != nullptr;
  return receiver == nullptr || receiver->Place(from, header, address);
}

void Connections::Arrived(int from, const Header& header) {
  if (header.kind == Kind::kBye) {
    connections_[from]->has_left = true;
  } else if (Receiver* const receiver = ReceiverOf(header.group);
             receiver != nullptr && connections_[from]->is_placed) {
    receiver->Arrived(from, header);
  }
}

absl::StatusOr<std::unique_ptr<Connections>> Connections::Create(int rank,
                                                                 std::vector<Peer> peers) {
  std::unique_ptr<Connections> all(new Connections(rank));
  all->connections_.resize(peers.size());
  for (int r = 0; r < static_cast<int>(peers.size()); ++r) {
    if (r == rank) continue;
    all->connections_[r] =
        std::make_unique<PeerConnection>(std::move(peers[r].socket), r, all.get());
  }
  all->peers_ = std::move(peers);
  all->poll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  all->wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  absl::Status status = AddToPoll(all->poll_.get(), all->wake_.get(), kWakeEvent);
  for (int r = 0; r < all->size() && status.ok(); ++r) {
    if (r == rank) continue;
    status = AddToPoll(all->poll_.get(), all->connections_[r]->connection.socket(), r);
  }
  if (!status.ok()) return status;
  return all;
}

void Connections::Leave(double at_most_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(at_most_seconds);
  const Header bye;
  for (const auto& peer : connections_) {
    if (peer != nullptr) peer->connection.Send(bye, nullptr, nullptr);
  }
  const auto is_sent = [](const std::unique_ptr<PeerConnection>& peer) {
    if (peer == nullptr) return true;
    Connection& connection = peer->connection;
    if (connection.is_closed()) return true;
    if (connection.has_output()) connection.Flush();
    connection.Read();  // notices a peer that has gone
    return connection.is_closed() ||
           (!connection.has_output() && connection.UnacknowledgedBytes() == 0);
  };
  while (!std::all_of(connections_.begin(), connections_.end(), is_sent) &&
         Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Connections::RemoveReceiver(uint64_t id) {
  receivers_.erase(id);
  Drop(id);
}

Receiver* Connections::ReceiverOf(uint64_t group) const {
  const auto found = receivers_.find(group);
  return found == receivers_.end() ? nullptr : found->second;
}

void Connections::Send(int rank, const Header& header, const char* data, int* pending) {
  connections_[rank]->connection.Send(header, data, pending);
  UpdateInterest(rank);
}

void Connections::Drop(uint64_t group) {
  for (const auto& peer : connections_) {
    if (peer != nullptr) peer->connection.Drop(group);
  }
}

std::unique_ptr<char[]> Connections::TakeScratch() {
  if (scratch_.empty()) return std::unique_ptr<char[]>(new char[kScratchBytes]);
  std::unique_ptr<char[]> scratch = std::move(scratch_.back());
  scratch_.pop_back();
  return scratch;
}

void Connections::ReturnScratch(std::unique_ptr<char[]> scratch) {
  if (scratch != nullptr) scratch_.push_back(std::move(scratch));
}

int64_t Connections::BytesWritten() const {
  int64_t bytes = 0;
  for (const auto& peer : connections_) {
    if (peer != nullptr) bytes += peer->connection.bytes_written();
  }
  return bytes;
}

void Connections::UpdateInterest(int rank) {
  PeerConnection& peer = *connections_[rank];
  const Connection& connection = peer.connection;
  if (connection.is_closed() || peer.awaits_output == connection.has_output()) return;
  peer.awaits_output = connection.has_output();
  epoll_event event = {};
  event.events = peer.awaits_output ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u32 = rank;
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, connection.socket(), &event);
}

bool Connections::Take() {
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  const int count = epoll_wait(poll_.get(), events, kEvents, 0);
  for (int i = 0; i < count; ++i) {
    if (events[i].data.u32 == kWakeEvent) {
      uint64_t value = 0;
      static_cast<void>(!read(wake_.get(), &value, sizeof(value)));
      continue;
    }
    const int rank = static_cast<int>(events[i].data.u32);
    Connection& connection = connections_[rank]->connection;
    if ((events[i].events & EPOLLOUT) != 0) connection.Flush();
    if ((events[i].events & ~EPOLLOUT) != 0) connection.Read();
    UpdateInterest(rank);
    if (connection.is_closed()) {
      epoll_ctl(poll_.get(), EPOLL_CTL_DEL, connection.socket(), nullptr);
    }
  }
  return count > 0;
}

bool Connections::NeedsThread() const {
  return std::any_of(connections_.begin(), connections_.end(), [](const auto& peer) {
    return peer != nullptr && peer->connection.has_output();
  });
}

void Connections::Arm(bool in_background) {
  if (!in_background) return;
  for (const auto& peer : connections_) {
    if (peer != nullptr) peer->connection.WakeOnMessage();
  }
}

void Connections::Sleep(std::chrono::nanoseconds at_most) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(at_most);
  epoll_event event;
  epoll_wait(poll_.get(), &event, 1, static_cast<int>(milliseconds.count()));
}

void Connections::Wake() {
  const uint64_t one = 1;
  // It cannot fail: the count does not overflow.
  static_cast<void>(!write(wake_.get(), &one, sizeof(one)));
}

}  // namespace tessera::comm::tcp
