#include "collectives/rendezvous/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/limits.h"
#include "collectives/rendezvous/local_discovery.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

// With more queued bytes than this, no requests are read from a rank that does not read its
// answers.
constexpr int64_t kMaxQueuedBytes = kMaxMessageBytes;

constexpr char kWasClosed[] = "its connection to rank 0 was closed";

}  // namespace

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Start(StoreServerOptions options) {
  if (options.size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a job of ", options.size, " ranks"));
  }
  if (options.listeners.empty()) return absl::InvalidArgumentError("a store without a listener");
  ASSIGN_OR_RETURN(const int port, PortOf(options.listeners.front()));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return absl::ErrnoToStatus(errno, "cannot make an eventfd");
  return std::unique_ptr<StoreServer>(new StoreServer(std::move(options), port, std::move(wake)));
}

StoreServer::StoreServer(StoreServerOptions options, int port, FileDescriptor wake)
    : size_(options.size),
      port_(port),
      secret_(options.secret),
      local_discovery_(std::move(options.local_discovery)),
      wake_(std::move(wake)),
      acceptor_(std::move(options.listeners), {kRendezvousService, options.job, options.secret},
                [this](const RankClaim& claim) { return Admit(claim); }),
      connections_(size_),
      states_(size_, RankState::kAbsent),
      thread_([this] { Run(); }) {}

StoreServer::~StoreServer() {
  stopping_ = true;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

bool StoreServer::WaitUntilAllLeft(std::chrono::milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  MutexLock lock(&mutex_);
  while (connected_ranks_ > 0) {
    if (!changed_.WaitUntil(lock, deadline)) return connected_ranks_ == 0;
  }
  return true;
}

void StoreServer::Run() {
  while (!stopping_) {
    WaitForEvents();
    std::vector<KeyValueStore::Answer> answers;
    store_.Expire(Clock::now(), &answers);
    QueueAnswers(answers);
    FlushAll();
  }
}

void StoreServer::WaitForEvents() {
  std::vector<pollfd> events = {{wake_.get(), POLLIN, 0}, {local_discovery_.get(), POLLIN, 0}};
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (connections_[rank] == nullptr) continue;
    const int64_t queued = connections_[rank]->queued_bytes();
    const int in = queued < kMaxQueuedBytes ? POLLIN : 0;
    const int out = queued > 0 ? POLLOUT : 0;
    events.push_back(
        {connections_[rank]->fd(), static_cast<decltype(pollfd::events)>(in | out), 0});
    ranks.push_back(rank);
  }
  const size_t first_rank = 2, first_of_acceptor = events.size();
  const Deadline next = std::min(acceptor_.AppendEvents(&events), store_.next_expiry());
  if (poll(events.data(), events.size(), MillisecondsUntil(next)) < 0) return;
  for (size_t i = 0; i < ranks.size(); ++i) {
    // Handling an earlier connection may have dropped this one.
    if ((events[first_rank + i].revents & ~POLLOUT) != 0 && connections_[ranks[i]] != nullptr) {
      ReadFrom(ranks[i]);
    }
  }
  if (events[1].revents != 0) AnswerLocalRanks(local_discovery_, port_, secret_);
  for (Acceptor::Connection& connection :
       acceptor_.Advance(absl::MakeConstSpan(events).subspan(first_of_acceptor))) {
    LimitUnacknowledged(connection.socket);
    connections_[connection.rank] =
        std::make_unique<FramedConnection>(std::move(connection.socket), connection.keys);
  }
  StopListeningIfComplete();
}

void StoreServer::StopListeningIfComplete() {
  const bool is_complete = std::none_of(
      states_.begin(), states_.end(), [](RankState state) { return state == RankState::kAbsent; });
  if (!is_complete) return;
  acceptor_.Close();
  local_discovery_.Close();
}

absl::Status StoreServer::Admit(const RankClaim& claim) {
  if (claim.size != size_ || claim.rank < 0 || claim.rank >= size_) {
    return absl::InvalidArgumentError(absl::StrCat("this is rank ", claim.rank, " of ", claim.size,
                                                   ", but rank 0 is one of ", size_));
  }
  if (states_[claim.rank] != RankState::kAbsent) {
    const bool is_connected = states_[claim.rank] == RankState::kConnected;
    return absl::AlreadyExistsError(
        absl::StrCat("rank ", claim.rank,
                     is_connected ? " is connected already" : " was connected and has ended",
                     ": two processes have the same rank, or one was started again"));
  }
  SetState(claim.rank, RankState::kConnected);
  return absl::OkStatus();
}

void StoreServer::ReadFrom(int rank) {
  const absl::Status received = connections_[rank]->Receive();
  while (true) {
    StoreRequest request;
    const absl::StatusOr<bool> has_request = connections_[rank]->Next(&request);
    if (!has_request.ok()) return DropForMessage(rank, has_request.status());
    if (!*has_request) break;
    HandleRequest(rank, request);
  }
  if (!received.ok()) Drop(rank, kWasClosed);
}

void StoreServer::DropForMessage(int rank, const absl::Status& why) {
  FramedConnection& connection = *connections_[rank];
  if (!absl::IsDataLoss(why)) {
    return Drop(rank, absl::StrCat("it sent a malformed message: ", why.message()));
  }
  const std::string fault =
      absl::StrCat("message from ", connection.peer_address(), " to rank 0 was ", why.message());
  // The rank itself has done nothing wrong, and should report the cause too.
  connection.Queue(ResponseOf(absl::DataLossError(absl::StrCat("rank ", rank, "'s ", fault))));
  connection.Flush().IgnoreError();
  Drop(rank, absl::StrCat("its ", fault));
}

void StoreServer::HandleRequest(int rank, const StoreRequest& request) {
  std::vector<KeyValueStore::Answer> answers;
  if (request.has_leave()) {
    store_.RemoveWaitOf(rank);
    if (request.leave().error().empty()) {
      SetState(rank, RankState::kDone);
    } else {
      LoseRank(rank, request.leave().error().substr(0, kMaxReasonBytes));
    }
    answers.push_back({rank, ResponseOf(absl::OkStatus())});
  } else {
    store_.Handle(rank, request, Clock::now(), &answers);
  }
  QueueAnswers(answers);
}

void StoreServer::SetState(int rank, RankState state) {
  const MutexLock lock(&mutex_);
  if (states_[rank] == RankState::kConnected) --connected_ranks_;
  if (state == RankState::kConnected) ++connected_ranks_;
  states_[rank] = state;
  changed_.NotifyAll();
}

void StoreServer::LoseRank(int rank, const std::string& why) {
  if (states_[rank] != RankState::kConnected) return;
  SetState(rank, RankState::kLost);
  std::vector<KeyValueStore::Answer> answers;
  store_.FailWaits(absl::UnavailableError(absl::StrCat("rank ", rank, " was lost: ", why)),
                   &answers);
  QueueAnswers(answers);
}

void StoreServer::QueueAnswers(const std::vector<KeyValueStore::Answer>& answers) {
  for (const KeyValueStore::Answer& answer : answers) {
    if (connections_[answer.rank] != nullptr) connections_[answer.rank]->Queue(answer.response);
  }
}

void StoreServer::Drop(int rank, const std::string& why) {
  connections_[rank].reset();
  store_.RemoveWaitOf(rank);
  LoseRank(rank, why);
}

// Dropping a rank queues answers for the others, whose connections may be closed too.
void StoreServer::FlushAll() {
  bool dropped = false;
  do {
    dropped = false;
    for (int rank = 0; rank < size_; ++rank) {
      if (connections_[rank] == nullptr || connections_[rank]->Flush().ok()) continue;
      Drop(rank, kWasClosed);
      dropped = true;
    }
  } while (dropped);
}

}  // namespace tessera::comm
