#include "collectives/tcp/network.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <thread>
#include <utility>

#include "collectives/tcp/group.h"
#include "core/status/status_macros.h"

namespace tessera::comm::tcp {
namespace {

// The event of wake_; other events are numbers of ranks.
constexpr uint32_t kWakeEvent = UINT32_MAX;

// The longest wait for the last messages to be acknowledged.
constexpr double kLeaveSeconds = 5;

absl::Status AddToPoll(int poll, int descriptor, uint32_t data) {
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u32 = data;
  if (epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "cannot wait for connections");
}

}  // namespace

bool Network::HeaderArrived(int from, const Header& header, char** address) {
  if (header.kind == Kind::kBye) return true;
  Receiver* const receiver = ReceiverOf(header.group);
  connections_[from]->has_receiver = receiver != nullptr;
  return receiver == nullptr || receiver->HeaderArrived(from, header, address);
}

void Network::MessageArrived(int from, const Header& header) {
  if (header.kind == Kind::kBye) {
    connections_[from]->has_left = true;
  } else if (Receiver* const receiver = ReceiverOf(header.group);
             receiver != nullptr && connections_[from]->has_receiver) {
    receiver->MessageArrived(from, header);
  }
}

absl::StatusOr<std::unique_ptr<Network>> Network::Create(int rank, int size,
                                                         const Exchange& exchange,
                                                         const NetworkOptions& options) {
  ASSIGN_OR_RETURN(std::vector<Peer> peers, Connect(rank, size, exchange, options));
  std::unique_ptr<Network> network(new Network(rank, options));
  RETURN_IF_ERROR(network->Open(std::move(peers)));
  return network;
}

absl::Status Network::Open(std::vector<Peer> peers) {
  poll_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  RETURN_IF_ERROR(AddToPoll(poll_.get(), wake_.get(), kWakeEvent));
  connections_.resize(peers.size());
  for (int r = 0; r < static_cast<int>(peers.size()); ++r) {
    if (r == rank_) continue;
    RETURN_IF_ERROR(AddToPoll(poll_.get(), peers[r].socket.get(), r));
    connections_[r] =
        std::make_unique<PeerConnection>(std::move(peers[r].socket), r, this, peers[r].security);
  }
  peers_ = std::move(peers);
  engine_ = std::make_unique<ProgressEngine>(
      this, ProgressEngine::Options{.has_thread = peers_.size() > 1});
  return absl::OkStatus();
}

Network::~Network() {
  if (engine_ == nullptr) return;
  engine_->Stop();
  Leave();
}

absl::StatusOr<std::unique_ptr<Communicator>> Network::World() {
  if (world_was_made_) {
    return absl::FailedPreconditionError("the group of all ranks was made before");
  }
  world_was_made_ = true;
  std::vector<int> ranks(peers_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<Group>(this, engine_.get(), "world", rank_, std::move(ranks), 0,
                                 options_.timeout_seconds, Contents::kTensors);
}

void Network::Leave() {
  using Clock = std::chrono::steady_clock;
  const std::chrono::duration<double> at_most(std::min(kLeaveSeconds, options_.timeout_seconds));
  const auto deadline = Clock::now() + at_most;
  const Header bye;
  for (const auto& peer : connections_) {
    if (peer != nullptr) peer->connection.Send(bye, nullptr, nullptr);
  }
  const auto is_sent = [](const std::unique_ptr<PeerConnection>& peer) {
    if (peer == nullptr) return true;
    Connection& connection = peer->connection;
    const auto is_over = [&] { return connection.is_closed() && !connection.is_open_for_output(); };
    if (is_over()) return true;
    if (connection.has_output()) connection.Flush();
    connection.Read();  // notices a peer that has gone
    return is_over() || (!connection.has_output() && connection.UnacknowledgedBytes() == 0);
  };
  while (!std::all_of(connections_.begin(), connections_.end(), is_sent) &&
         Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void Network::RemoveReceiver(uint64_t id) {
  receivers_.erase(id);
  Drop(id);
}

Receiver* Network::ReceiverOf(uint64_t group) const {
  const auto found = receivers_.find(group);
  return found == receivers_.end() ? nullptr : found->second;
}

void Network::Send(int rank, const Header& header, const char* data, int* pending) {
  connections_[rank]->connection.Send(header, data, pending);
  UpdateInterest(rank);
}

void Network::Drop(uint64_t group) {
  for (const auto& peer : connections_) {
    if (peer != nullptr) peer->connection.Drop(group);
  }
}

std::unique_ptr<char[]> Network::TakeScratch() {
  if (scratch_.empty()) return std::unique_ptr<char[]>(new char[kScratchBytes]);
  std::unique_ptr<char[]> scratch = std::move(scratch_.back());
  scratch_.pop_back();
  return scratch;
}

void Network::ReturnScratch(std::unique_ptr<char[]> scratch) {
  if (scratch != nullptr) scratch_.push_back(std::move(scratch));
}

int64_t Network::BytesWritten() {
  const MutexLock lock(&engine_->mutex());
  int64_t bytes = 0;
  for (const auto& peer : connections_) {
    if (peer != nullptr) bytes += peer->connection.bytes_written();
  }
  return bytes;
}

void Network::UpdateInterest(int rank) {
  PeerConnection& peer = *connections_[rank];
  const Connection& connection = peer.connection;
  if (connection.is_closed() || peer.awaits_output == connection.has_output()) return;
  peer.awaits_output = connection.has_output();
  epoll_event event = {};
  event.events = peer.awaits_output ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u32 = rank;
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, connection.socket(), &event);
}

bool Network::TakeEvents() {
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

bool Network::NeedsThread() const {
  return std::any_of(connections_.begin(), connections_.end(), [](const auto& peer) {
    return peer != nullptr && !peer->connection.is_closed() && peer->connection.has_output();
  });
}

void Network::PrepareWait(bool in_background) {
  if (!in_background) return;
  for (const auto& peer : connections_) {
    if (peer != nullptr) peer->connection.WakeOnMessage();
  }
}

void Network::CommitWait(std::chrono::nanoseconds at_most) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(at_most);
  epoll_event event;
  epoll_wait(poll_.get(), &event, 1, static_cast<int>(milliseconds.count()));
}

void Network::Wake() {
  const uint64_t one = 1;
  // It cannot fail: the count does not overflow.
  static_cast<void>(!write(wake_.get(), &one, sizeof(one)));
}

}  // namespace tessera::comm::tcp
