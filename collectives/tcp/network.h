// Ranks on any hosts that communicate over TCP: one connection for each two of them, which all of
// their groups share.
//
// Operations move on while their rank waits for one of them, and otherwise on a thread of the
// network's own.
//
// A host that vanishes is noticed like a rank that stops: what waits for it ends at the time-out. A
// rank that dies on a host that is there is noticed at once.
//
// Thread safety: as Communicator; the making of groups comes from one thread at a time.
#ifndef TESSERA_COLLECTIVES_TCP_NETWORK_H_
#define TESSERA_COLLECTIVES_TCP_NETWORK_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/progress_thread.h"
#include "collectives/tcp/connect.h"
#include "collectives/tcp/link.h"

namespace tessera::comm::tcp {

struct NetworkOptions {
  // The longest that ranks wait for each other: to connect, and in an operation in which nothing
  // moves.
  double timeout_seconds = 60;
  // An address of this host or the name of an interface, where peers reach it. Empty: loopback if
  // all ranks are on one host, and otherwise the interface that has a route to another host's rank.
  std::string interface = "";
  std::string secret = "";  // of the job: connections prove that they know it
};

class Group;

class Network {
 public:
  // Collective over all ranks. `exchange` is not used afterwards. Unavailable on all ranks if not
  // all of them could connect.
  static absl::StatusOr<std::unique_ptr<Network>> Create(int rank, int size,
                                                         const Exchange& exchange,
                                                         const NetworkOptions& options);
  // All groups must have gone. Returns when the peers' systems have what was sent to them.
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }

  // The group of all ranks, once.
  absl::StatusOr<std::unique_ptr<Communicator>> World();

  // What this rank has sent to others, but for headers: what the groups' traffic adds up to.
  int64_t BytesWritten();

 private:
  friend class Group;

  // A peer's connection.
  class Line : public Receiver {
   public:
    Line(Network* network, int rank, int socket)
        : link(socket, this), network_(network), rank_(rank) {}
    bool Place(const Header& header, char** place) override;
    void Arrived(const Header& header) override;
    Link link;
    bool has_left = false;       // as it should
    bool awaits_output = false;  // is polled for

   private:
    Network* const network_;
    const int rank_;
    bool is_placed_ = false;  // the message, by a group: there may be one when all of it is there
  };

  Network(int rank, std::vector<Peer> peers, const NetworkOptions& options);

  void Add(Group* group);
  void Remove(Group* group);
  Group* Find(uint64_t id) const;

  // All of what follows but WaitUntil has the mutex held.
  void Send(int rank, const Header& header, const char* data, int* pending);
  void Drop(uint64_t group);  // sends nothing more of it, nor touches its memory
  std::unique_ptr<char[]> TakeScratch();
  void ReturnScratch(std::unique_ptr<char[]> scratch);

  // Moves operations on until `done`, which is called with the mutex held, says so.
  void WaitUntil(const std::function<bool()>& done);
  // Has the thread look after operations, unless a caller does.
  void WakeThread();
  enum class Pause : uint8_t { kNone, kSleep, kSpinAndSleep };
  // Waits until something comes or goes, if it may, but not for ever, and sees to it.
  void Turn(std::unique_lock<std::mutex>& lock, Pause pause);
  void UpdateInterest(int rank);
  bool AdvanceAll();
  bool AnyNeedsThread() const;
  void CheckAll();
  // The thread's part: whether there was something to do, or a caller does it.
  bool AdvanceUnlessCalled();
  void Leave();

  const int rank_;
  std::vector<Peer> peers_;
  const NetworkOptions options_;
  int poll_ = -1;  // an epoll

  std::mutex mutex_;                          // guards what follows, and the state of all groups
  std::vector<std::unique_ptr<Line>> lines_;  // by rank; none to this one
  std::vector<Group*> groups_;
  uint64_t groups_made_ = 0;
  bool world_was_made_ = false;
  std::vector<std::unique_ptr<char[]>> scratch_;
  std::chrono::steady_clock::time_point checked_;
  int callers_ = 0;         // in WaitUntil
  bool is_driven_ = false;  // one of them or the thread is in Turn
  std::condition_variable changed_;

  std::unique_ptr<ProgressThread> thread_;  // none where the rank is alone
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_NETWORK_H_
