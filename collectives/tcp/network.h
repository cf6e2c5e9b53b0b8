// Ranks on any hosts that communicate over TCP. There is one connection for each pair of ranks,
// which all of their groups share.
//
// A thread that waits for an operation advances all operations; if no thread waits, a thread of the
// network's own advances them.
//
// A host that vanishes is treated like a rank that stops: operations that wait for it end at the
// time-out. A rank that dies on a running host is noticed at once.
//
// Thread safety: as Communicator; the making of groups comes from one thread at a time.
#ifndef TESSERA_COLLECTIVES_TCP_NETWORK_H_
#define TESSERA_COLLECTIVES_TCP_NETWORK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/queue/progress_engine.h"
#include "collectives/tcp/connect.h"
#include "collectives/tcp/connection.h"
#include "collectives/tcp/message.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm::tcp {

// The number of pieces that a peer may send ahead of their reduction.
inline constexpr int kScratchPieces = 4;
inline constexpr int64_t kScratchBytes = int64_t{kScratchPieces} * kPieceBytes;

// It is the event source of its engine: a thread sleeps in epoll_wait. Events stay in the epoll
// until TakeEvents, so a wait needs no preparation.
class Network : public EventSource, public Receiver {
 public:
  // Collective over all ranks. `exchange` is not used afterwards. Unavailable on all ranks if not
  // all of them could connect.
  static absl::StatusOr<std::unique_ptr<Network>> Create(int rank, int size,
                                                         const Exchange& exchange,
                                                         const NetworkOptions& options);
  // All groups must have been destroyed. Returns when the peers' systems have acknowledged
  // everything.
  ~Network() override;

  // Returns the group of all ranks. May be called once.
  absl::StatusOr<std::unique_ptr<Communicator>> World();

  // Returns the bytes that this rank has sent to others, without headers: the sum of the groups'
  // traffic.
  int64_t BytesWritten();

  // For groups, with the engine's mutex held.
  const Peer& peer(int rank) const { return peers_[rank]; }
  // Passes messages of the group `id` to `receiver` until it is removed.
  void AddReceiver(uint64_t id, Receiver* receiver) { receivers_[id] = receiver; }
  void RemoveReceiver(uint64_t id);
  // Returns a new id for a group whose first member is this rank.
  uint64_t NextGroup() { return (static_cast<uint64_t>(rank_) << 32) | ++groups_; }

  // As Connection::Send.
  void Send(int rank, const Header& header, const char* data, int* pending);
  // Stops sending data of a group, and no longer accesses its memory.
  void Drop(uint64_t group);
  bool IsClosed(int rank) const { return connections_[rank]->connection.is_closed(); }
  // Returns whether the peer ended without a failure and reported that before it closed the
  // connection.
  bool HasLeft(int rank) const { return connections_[rank]->has_left; }
  const std::string& WhyClosed(int rank) const {
    return connections_[rank]->connection.why_closed();
  }
  // Returns whether the connection was closed because bytes of the peer were changed on the way.
  bool WasChanged(int rank) const { return connections_[rank]->connection.was_changed(); }

  // Lend a buffer of kScratchBytes from a pool, and take it back.
  std::unique_ptr<char[]> TakeScratch();
  void ReturnScratch(std::unique_ptr<char[]> scratch);

  bool TakeEvents() override;
  bool NeedsThread() const override;
  void PrepareWait(bool in_background) override;
  void CommitWait(std::chrono::nanoseconds at_most) override;
  void Wake() override;

 private:
  struct PeerConnection {
    PeerConnection(FileDescriptor socket, int peer, Receiver* receiver,
                   const ConnectionSecurity& security)
        : connection(std::move(socket), peer, receiver, security) {}
    Connection connection;
    bool has_left = false;       // reported by kBye
    bool awaits_output = false;  // polled for writability
    // The group of the incoming message existed when its header arrived. When the message is
    // complete, another group may have the id.
    bool has_receiver = false;
  };

  Network(int rank, const NetworkOptions& options) : rank_(rank), options_(options) {}
  // The part of the construction that can fail.
  absl::Status Open(std::vector<Peer> peers);
  bool HeaderArrived(int from, const Header& header, char** address) override;
  void MessageArrived(int from, const Header& header) override;
  Receiver* ReceiverOf(uint64_t group) const;
  // Polls a connection for writability if and only if it has output.
  void UpdateInterest(int rank);
  // Reports to the peers that this rank has ended, and returns when their systems have acknowledged
  // everything. (Closing a connection while received data is unread may lose the data that was sent
  // last.)
  void Leave();

  const int rank_;
  const NetworkOptions options_;
  bool world_was_made_ = false;
  std::vector<Peer> peers_;
  FileDescriptor poll_;  // an epoll
  FileDescriptor wake_;  // an eventfd
  // The engine's mutex guards these.
  std::vector<std::unique_ptr<PeerConnection>> connections_;  // by rank; null for this one
  std::unordered_map<uint64_t, Receiver*> receivers_;         // by group
  uint64_t groups_ = 0;
  std::vector<std::unique_ptr<char[]>> scratch_;

  std::unique_ptr<ProgressEngine> engine_;  // declared last: it uses the others until its end
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_NETWORK_H_
