#include "collectives/tcp/network.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "collectives/spin.h"
#include "collectives/tcp/group.h"
#include "core/status/status_macros.h"

namespace tessera::comm::tcp {
namespace {

using Clock = std::chrono::steady_clock;

// Sleepers wake by themselves to see whether somebody is too late.
constexpr int kSleepMilliseconds = 50;
constexpr auto kCheckEvery = std::chrono::milliseconds(20);

// How long the last messages may take.
constexpr double kLeaveSeconds = 5;

}  // namespace

bool Network::Line::Place(const Header& header, char** place) {
  if (header.kind == Kind::kBye) return true;
  Group* const group = network_->Find(header.group);
  is_placed_ = group != nullptr;
  if (!is_placed_) return true;
  const int member = group->MemberOf(rank_);
  return member < group->size() && group->Place(member, header, place);
}

void Network::Line::Arrived(const Header& header) {
  if (header.kind == Kind::kBye) {
    has_left = true;
  } else if (Group* const group = network_->Find(header.group); group != nullptr && is_placed_) {
    group->Arrived(group->MemberOf(rank_), header);
  }
}

Network::Network(int rank, std::vector<Peer> peers, const NetworkOptions& options)
    : rank_(rank), peers_(std::move(peers)), options_(options), lines_(peers_.size()) {
  for (int r = 0; r < size(); ++r) {
    if (r != rank_) lines_[r] = std::make_unique<Line>(this, r, peers_[r].socket.Release());
  }
}

absl::StatusOr<std::unique_ptr<Network>> Network::Create(int rank, int size,
                                                         const Exchange& exchange,
                                                         const NetworkOptions& options) {
  ASSIGN_OR_RETURN(std::vector<Peer> peers, Connect(rank, size, exchange,
                                                    {.interface = options.interface,
                                                     .secret = options.secret,
                                                     .timeout_seconds = options.timeout_seconds}));
  std::unique_ptr<Network> network(new Network(rank, std::move(peers), options));
  if (size == 1) return network;
  network->poll_ = epoll_create1(EPOLL_CLOEXEC);
  for (int r = 0; r < size; ++r) {
    if (r == rank) continue;
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u32 = r;
    if (epoll_ctl(network->poll_, EPOLL_CTL_ADD, network->lines_[r]->link.socket(), &event) != 0) {
      return absl::ErrnoToStatus(errno, "cannot wait for connections");
    }
  }
  network->thread_ = std::make_unique<ProgressThread>(
      [network = network.get()] { return network->AdvanceUnlessCalled(); });
  return network;
}

Network::~Network() {
  if (thread_ != nullptr) {
    thread_->Join();
    Leave();
  }
  if (poll_ >= 0) close(poll_);
}

// A connection that is closed while something has not been read may lose what was sent last, so
// this waits until the peers' systems have it.
void Network::Leave() {
  const auto deadline = Clock::now() + std::chrono::duration<double>(
                                           std::min(kLeaveSeconds, options_.timeout_seconds));
  Header bye;
  for (const auto& line : lines_) {
    if (line != nullptr) line->link.Send(bye, nullptr, nullptr);
  }
  const auto is_sent = [](const std::unique_ptr<Line>& line) {
    if (line == nullptr || line->link.is_closed()) return true;
    if (line->link.has_output()) line->link.Flush();
    line->link.Read();  // notices who has gone
    return line->link.is_closed() ||
           (!line->link.has_output() && line->link.UnacknowledgedBytes() == 0);
  };
  while (!std::all_of(lines_.begin(), lines_.end(), is_sent) && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> Network::World() {
  if (world_was_made_) {
    return absl::FailedPreconditionError("the group of all ranks was made before");
  }
  world_was_made_ = true;
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r) ranks.push_back(r);
  return std::make_unique<Group>(this, "world", rank_, ranks, 0);
}

int64_t Network::BytesWritten() {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t bytes = 0;
  for (const auto& line : lines_) {
    if (line != nullptr) bytes += line->link.bytes_written();
  }
  return bytes;
}

void Network::Add(Group* group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.push_back(group);
}

void Network::Remove(Group* group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.erase(std::find(groups_.begin(), groups_.end(), group));
  Drop(group->id_);
  group->EndFlows();
}

Group* Network::Find(uint64_t id) const {
  for (Group* group : groups_) {
    if (group->id_ == id) return group;
  }
  return nullptr;
}

void Network::Send(int rank, const Header& header, const char* data, int* pending) {
  lines_[rank]->link.Send(header, data, pending);
  UpdateInterest(rank);
}

void Network::Drop(uint64_t group) {
  for (const auto& line : lines_) {
    if (line != nullptr) line->link.Drop(group);
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

void Network::UpdateInterest(int rank) {
  Line& line = *lines_[rank];
  if (line.link.is_closed() || line.awaits_output == line.link.has_output()) return;
  line.awaits_output = line.link.has_output();
  epoll_event event = {};
  event.events = line.awaits_output ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u32 = rank;
  epoll_ctl(poll_, EPOLL_CTL_MOD, line.link.socket(), &event);
}

void Network::Turn(std::unique_lock<std::mutex>& lock, Pause pause) {
  constexpr int kEvents = 64;
  epoll_event events[kEvents];
  is_driven_ = true;
  lock.unlock();
  const auto look = [&](int milliseconds) {
    return epoll_wait(poll_, events, kEvents, milliseconds);
  };
  int count = pause == Pause::kSleep ? 0 : look(0);
  if (pause == Pause::kSpinAndSleep) {
    for (const Spin spin; count == 0 && !spin.IsOver();) count = look(0);
  }
  if (pause != Pause::kNone && count == 0) count = look(kSleepMilliseconds);
  lock.lock();
  is_driven_ = false;
  bool closed = false;
  for (int i = 0; i < count; ++i) {
    const int rank = static_cast<int>(events[i].data.u32);
    Link& link = lines_[rank]->link;
    if ((events[i].events & EPOLLOUT) != 0) link.Flush();
    if ((events[i].events & ~EPOLLOUT) != 0) link.Read();
    UpdateInterest(rank);
    if (link.is_closed()) {
      epoll_ctl(poll_, EPOLL_CTL_DEL, link.socket(), nullptr);
      closed = true;
    }
  }
  while (AdvanceAll()) {
  }
  if (closed || Clock::now() - checked_ > kCheckEvery) CheckAll();
}

bool Network::AdvanceAll() {
  bool moved = false;
  for (Group* group : groups_) moved = group->Advance() || moved;
  return moved;
}

bool Network::AnyNeedsThread() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const Group* group) { return group->NeedsThread(); }) ||
         std::any_of(lines_.begin(), lines_.end(), [](const std::unique_ptr<Line>& line) {
           return line != nullptr && line->link.has_output();
         });
}

void Network::CheckAll() {
  checked_ = Clock::now();
  for (Group* group : groups_) group->Check(checked_);
}

void Network::WaitUntil(const std::function<bool()>& done) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (done()) return;
  ++callers_;
  while (!done()) {
    // One sees to the connections; what it does may be what another waits for.
    if (is_driven_) {
      changed_.wait(lock);
    } else {
      Turn(lock, Pause::kSpinAndSleep);
      if (callers_ > 1) changed_.notify_all();
    }
  }
  --callers_;
  if (callers_ > 0) {
    changed_.notify_all();
  } else if (AnyNeedsThread()) {
    WakeThread();
  }
}

void Network::WakeThread() {
  if (callers_ > 0) return;
  thread_->Wake(std::any_of(groups_.begin(), groups_.end(),
                            [](const Group* group) { return group->HasLarge(); }));
}

bool Network::AdvanceUnlessCalled() {
  std::unique_lock<std::mutex> lock(mutex_);
  bool was_needed = false;
  while (!thread_->is_stopped() && callers_ == 0 && !is_driven_ && AnyNeedsThread()) {
    Turn(lock, Pause::kSleep);
    changed_.notify_all();
    was_needed = true;
  }
  return was_needed || callers_ > 0 || is_driven_;
}

}  // namespace tessera::comm::tcp
