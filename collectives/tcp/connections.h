// The connections of a rank to all other ranks. Its groups share them.
#ifndef TESSERA_COLLECTIVES_TCP_CONNECTIONS_H_
#define TESSERA_COLLECTIVES_TCP_CONNECTIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/queue/progress_engine.h"
#include "collectives/tcp/connect.h"
#include "collectives/tcp/connection.h"
#include "collectives/tcp/message.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm::tcp {

// The number of pieces that a peer may send ahead of their reduction.
inline constexpr int kScratchPieces = 4;
inline constexpr int64_t kScratchBytes = int64_t{kScratchPieces} * kPieceBytes;

// Thread safety: functions need the engine's mutex, apart from Create, Leave, Sleep and Wake.
class Connections : public EventSource, public Receiver {
 public:
  static absl::StatusOr<std::unique_ptr<Connections>> Create(int rank, std::vector<Peer> peers);
  ~Connections() override = default;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
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

  std::unique_ptr<char[]> TakeScratch();
  void ReturnScratch(std::unique_ptr<char[]> scratch);

  // Bytes sent to other ranks, without headers.
  int64_t BytesWritten() const;

  bool Take() override;
  bool NeedsThread() const override;
  void Arm(bool in_background) override;
  void Sleep(std::chrono::nanoseconds at_most) override;
  void Wake() override;

  // Reports to the peers that this rank has ended, and returns when their systems have acknowledged
  // everything. (Closing a connection while received data is unread may lose the data that was sent
  // last.)
  void Leave(double at_most_seconds);

 private:
  struct PeerConnection {
    PeerConnection(FileDescriptor socket, int peer, Receiver* receiver)
        : connection(std::move(socket), peer, receiver) {}
    Connection connection;
    bool has_left = false;       // reported by kBye
    bool awaits_output = false;  // polled for writability
    bool is_placed = false;  // the message, by a group: another one may exist when it has arrived
  };

  explicit Connections(int rank) : rank_(rank) {}
  bool Place(int from, const Header& header, char** address) override;
  void Arrived(int from, const Header& header) override;
  Receiver* ReceiverOf(uint64_t group) const;
  void UpdateInterest(int rank);

  const int rank_;
  std::vector<Peer> peers_;
  FileDescriptor poll_;                                       // an epoll
  FileDescriptor wake_;                                       // an eventfd
  std::vector<std::unique_ptr<PeerConnection>> connections_;  // by rank; null for this one
  std::unordered_map<uint64_t, Receiver*> receivers_;         // by group
  uint64_t groups_ = 0;
  std::vector<std::unique_ptr<char[]>> scratch_;
};

}  // namespace tessera::comm::tcp

#endif  // TESSERA_COLLECTIVES_TCP_CONNECTIONS_H_
