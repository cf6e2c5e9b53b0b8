#include "collectives/rendezvous/store_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/rendezvous/framed_connection.h"
#include "collectives/rendezvous/key_value_store.h"
#include "collectives/rendezvous/limits.h"
#include "collectives/rendezvous/local_meeting.h"
#include "collectives/rendezvous/proof.h"
#include "collectives/rendezvous/store.pb.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kAcceptsAtOnce = 64;
// A rank answers the challenge at once: one that has not done so for this long makes room for
// others, where there are many.
constexpr std::chrono::milliseconds kPatience{200};
// After the system had no descriptor left.
constexpr std::chrono::milliseconds kAcceptPause{100};
// A rank that takes no answers is asked for no more requests.
constexpr int64_t kMaxQueuedBytes = kMaxMessageBytes;

enum class RankState { kAbsent, kHere, kDone, kLost };

struct Peer {
  Peer(FileDescriptor socket, Deadline came_at)
      : connection(std::move(socket), kMaxGreetingBytes), came_at(came_at) {}

  FramedConnection connection;
  const Deadline came_at;
  const std::string nonce = RandomBytes(kNonceBytes);
  int rank = -1;         // once it has proved that it knows the secret
  bool refused = false;  // to be closed when it has been told
};

}  // namespace

// All but the four functions that are public and the members that say so belongs to the thread.
class StoreServer::Loop {
 public:
  Loop(StoreServerOptions options, int port, FileDescriptor wake)
      : options_(std::move(options)),
        local_address_{port, options_.secret},
        wake_(std::move(wake)),
        states_(options_.size, RankState::kAbsent),
        peers_of_ranks_(options_.size, -1) {}
  ~Loop() { Stop(); }

  void Start() {
    thread_ = std::thread([this] { Run(); });
  }
  void Stop() {
    stopping_ = true;
    eventfd_write(wake_.get(), 1);
    if (thread_.joinable()) thread_.join();
  }
  bool WaitUntilAllLeft(std::chrono::milliseconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return ranks_here_ == 0; });
  }

 private:
  using PeerId = int64_t;  // greater for those that came later

  void Run();
  Deadline NextDeadline(bool may_accept) const;
  void Accept();
  bool MakeRoomForStranger();
  void ReadFrom(PeerId id);
  absl::Status HandleGreeting(PeerId id, const StoreRequest& request);
  void HandleRequest(Peer& peer, const StoreRequest& request);
  void SetState(int rank, RankState state);
  void Lose(int rank, const std::string& why);
  void Say(const std::vector<KeyValueStore::Answer>& answers);
  void Drop(PeerId id, const std::string& why);
  void DropOverdueStrangers();
  void FlushAll();

  const StoreServerOptions options_;
  const LocalAddress local_address_;
  const FileDescriptor wake_;
  std::atomic<bool> stopping_{false};  // shared
  std::thread thread_;                 // the owner's

  std::map<PeerId, Peer> peers_;
  std::set<PeerId> strangers_;  // have not proved yet that they know the secret
  PeerId next_peer_ = 0;
  std::vector<RankState> states_;       // by rank
  std::vector<PeerId> peers_of_ranks_;  // by rank; -1: none
  KeyValueStore store_;
  std::vector<LostRankNotice> lost_;
  Deadline accept_from_ = Deadline::min();

  std::mutex mutex_;
  std::condition_variable changed_;
  int ranks_here_ = 0;  // under mutex_
};

void StoreServer::Loop::Run() {
  while (!stopping_) {
    const bool may_accept = accept_from_ <= Clock::now();
    std::vector<pollfd> events = {{wake_.get(), POLLIN, 0},
                                  {may_accept ? options_.listener.get() : -1, POLLIN, 0},
                                  {options_.local_meeting.get(), POLLIN, 0}};
    const size_t first_peer = events.size();
    std::vector<PeerId> ids;
    for (const auto& [id, peer] : peers_) {
      const int64_t queued = peer.connection.queued_bytes();
      const int in = queued < kMaxQueuedBytes && !peer.refused ? POLLIN : 0;
      const int out = queued > 0 ? POLLOUT : 0;
      events.push_back({peer.connection.fd(), static_cast<decltype(pollfd::events)>(in | out), 0});
      ids.push_back(id);
    }
    if (poll(events.data(), events.size(), MillisecondsUntil(NextDeadline(may_accept))) < 0)
      continue;
    for (size_t i = 0; i < ids.size(); ++i) {
      // Some were dropped on account of those before them.
      if ((events[first_peer + i].revents & ~POLLOUT) != 0 && peers_.count(ids[i]) > 0) {
        ReadFrom(ids[i]);
      }
    }
    if (events[1].revents != 0) Accept();
    if (events[2].revents != 0) AnswerLocalMeeting(options_.local_meeting, local_address_);
    DropOverdueStrangers();
    std::vector<KeyValueStore::Answer> answers;
    store_.Expire(Clock::now(), &answers);
    Say(answers);
    FlushAll();
  }
}

// By one look at the clock: who does not accept yet must wake up to accept.
Deadline StoreServer::Loop::NextDeadline(bool may_accept) const {
  Deadline next = store_.next_expiry();
  if (!strangers_.empty()) {
    next = std::min(next, peers_.at(*strangers_.begin()).came_at + kStrangerTimeout);
  }
  return may_accept ? next : std::min(next, accept_from_);
}

void StoreServer::Loop::Accept() {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    if (!MakeRoomForStranger()) return;
    absl::StatusOr<FileDescriptor> socket = AcceptFrom(options_.listener);
    if (!socket.ok()) {
      if (!strangers_.empty()) Drop(*strangers_.begin(), "");
      accept_from_ = Clock::now() + kAcceptPause;
      return;
    }
    if (!socket->is_open()) return;
    const PeerId id = next_peer_++;
    Peer& peer = peers_.try_emplace(id, *std::move(socket), Clock::now()).first->second;
    strangers_.insert(id);
    Challenge challenge;
    challenge.set_version(kRendezvousVersion);
    challenge.set_nonce(peer.nonce);
    peer.connection.Queue(challenge);
  }
}

bool StoreServer::Loop::MakeRoomForStranger() {
  if (static_cast<int64_t>(strangers_.size()) < kMaxStrangers) return true;
  const PeerId oldest = *strangers_.begin();
  const Deadline patience_ends = peers_.at(oldest).came_at + kPatience;
  if (patience_ends > Clock::now()) {
    accept_from_ = std::min(patience_ends, Clock::now() + std::chrono::milliseconds(5));
    return false;
  }
  Drop(oldest, "");
  return true;
}

void StoreServer::Loop::ReadFrom(PeerId id) {
  Peer& peer = peers_.at(id);
  const absl::Status received = peer.connection.Receive();
  while (!peer.refused) {
    StoreRequest request;
    const absl::StatusOr<bool> there = peer.connection.Next(&request);
    if (!there.ok()) {
      Drop(id, "it sent what is no message");
      return;
    }
    if (!*there) break;
    if (peer.rank >= 0) {
      HandleRequest(peer, request);
      continue;
    }
    const absl::Status status = HandleGreeting(id, request);
    if (absl::IsUnauthenticated(status)) {
      Drop(id, "");
      return;
    }
    if (!status.ok()) {
      peer.connection.Queue(ResponseOf(request.id(), status));
      peer.refused = true;
    }
  }
  if (!received.ok()) Drop(id, "its connection to rank 0 was closed");
}

// Unauthenticated for what no rank sends; other errors are for a rank to read.
absl::Status StoreServer::Loop::HandleGreeting(PeerId id, const StoreRequest& request) {
  Peer& peer = peers_.at(id);
  const Hello& hello = request.hello();
  if (!request.has_hello()) return absl::UnauthenticatedError("no hello");
  if (hello.version() != kRendezvousVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", hello.rank(), " speaks version ", hello.version(),
                     " of the rendezvous, and rank 0 version ", kRendezvousVersion,
                     ": start the same build of Tessera everywhere"));
  }
  const ProofInput input = {options_.secret, options_.job, peer.nonce,
                            hello.nonce(),   hello.rank(), hello.size()};
  if (!SameProof(hello.proof(), RankProof(input))) {
    return absl::PermissionDeniedError(
        "rank 0 has another secret, or is of another job: TESSERA_SECRET must be the same for all "
        "ranks");
  }
  if (hello.size() != options_.size || hello.rank() < 0 || hello.rank() >= options_.size) {
    return absl::InvalidArgumentError(absl::StrCat("this is rank ", hello.rank(), " of ",
                                                   hello.size(), ", but rank 0 is one of ",
                                                   options_.size));
  }
  if (states_[hello.rank()] != RankState::kAbsent) {
    return absl::AlreadyExistsError(absl::StrCat(
        "rank ", hello.rank(),
        states_[hello.rank()] == RankState::kHere ? " is here already" : " was here and has ended",
        ": two processes were told the same rank, or one was started again"));
  }
  peer.rank = hello.rank();
  peer.connection.set_max_bytes(kMaxMessageBytes);
  strangers_.erase(id);
  peers_of_ranks_[peer.rank] = id;
  SetState(peer.rank, RankState::kHere);
  StoreResponse response;
  response.set_id(request.id());
  response.mutable_welcome()->set_proof(StoreProof(input));
  peer.connection.Queue(response);
  if (!lost_.empty()) {
    StoreResponse notices;  // not in the welcome, which may not be long
    for (const LostRankNotice& lost : lost_) *notices.add_lost() = lost;
    peer.connection.Queue(notices);
  }
  return absl::OkStatus();
}

void StoreServer::Loop::HandleRequest(Peer& peer, const StoreRequest& request) {
  std::vector<KeyValueStore::Answer> answers;
  if (request.has_leave()) {
    store_.Forget(peer.rank);
    if (request.leave().error().empty()) {
      SetState(peer.rank, RankState::kDone);
    } else {
      Lose(peer.rank, request.leave().error().substr(0, kMaxReasonBytes));
    }
    answers.push_back({peer.rank, ResponseOf(request.id(), absl::OkStatus())});
  } else {
    store_.Handle(peer.rank, request, Clock::now(), &answers);
  }
  Say(answers);
}

void StoreServer::Loop::SetState(int rank, RankState state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ranks_here_ += (state == RankState::kHere ? 1 : 0) - (states_[rank] == RankState::kHere ? 1 : 0);
  states_[rank] = state;
  changed_.notify_all();
}

void StoreServer::Loop::Lose(int rank, const std::string& why) {
  if (states_[rank] != RankState::kHere) return;
  SetState(rank, RankState::kLost);
  LostRankNotice notice;
  notice.set_rank(rank);
  notice.set_why(why);
  lost_.push_back(notice);
  StoreResponse response;
  *response.add_lost() = notice;
  for (auto& [id, peer] : peers_) {
    if (peer.rank >= 0 && peer.rank != rank) peer.connection.Queue(response);
  }
  std::vector<KeyValueStore::Answer> answers;
  store_.Doom(absl::UnavailableError(absl::StrCat("rank ", rank, " was lost: ", why)), &answers);
  Say(answers);
}

void StoreServer::Loop::Say(const std::vector<KeyValueStore::Answer>& answers) {
  for (const KeyValueStore::Answer& answer : answers) {
    const auto peer = peers_.find(peers_of_ranks_[answer.rank]);
    if (peer != peers_.end()) peer->second.connection.Queue(answer.response);
  }
}

void StoreServer::Loop::Drop(PeerId id, const std::string& why) {
  const int rank = peers_.at(id).rank;
  strangers_.erase(id);
  peers_.erase(id);
  if (rank < 0) return;
  peers_of_ranks_[rank] = -1;
  store_.Forget(rank);
  Lose(rank, why);
}

void StoreServer::Loop::DropOverdueStrangers() {
  while (!strangers_.empty() &&
         peers_.at(*strangers_.begin()).came_at + kStrangerTimeout <= Clock::now()) {
    Drop(*strangers_.begin(), "");
  }
}

// To drop one means to tell the others, which may be gone too.
void StoreServer::Loop::FlushAll() {
  std::vector<PeerId> gone;
  do {
    gone.clear();
    for (auto& [id, peer] : peers_) {
      const bool sent = peer.connection.Flush().ok();
      if (!sent || (peer.refused && peer.connection.queued_bytes() == 0)) gone.push_back(id);
    }
    for (const PeerId id : gone) Drop(id, "its connection to rank 0 was closed");
  } while (!gone.empty());
}

StoreServer::StoreServer(int port, std::unique_ptr<Loop> loop)
    : port_(port), loop_(std::move(loop)) {}

StoreServer::~StoreServer() = default;

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::Start(StoreServerOptions options) {
  if (options.size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("a job of ", options.size, " ranks"));
  }
  ASSIGN_OR_RETURN(const int port, PortOf(options.listener));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.is_open()) return absl::ErrnoToStatus(errno, "cannot make an eventfd");
  auto loop = std::make_unique<Loop>(std::move(options), port, std::move(wake));
  loop->Start();
  return std::unique_ptr<StoreServer>(new StoreServer(port, std::move(loop)));
}

bool StoreServer::WaitUntilAllLeft(std::chrono::milliseconds timeout) {
  return loop_->WaitUntilAllLeft(timeout);
}

}  // namespace tessera::comm
