// Listening sockets on which only ranks that prove that they know the secret are admitted.
//
// A connection that does not prove it is dropped. It costs a few hundred bytes of memory and never
// takes the room that a rank needs. The class does not wait: its owner calls poll(2).
#ifndef TESSERA_COLLECTIVES_NET_ACCEPTOR_H_
#define TESSERA_COLLECTIVES_NET_ACCEPTOR_H_

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "collectives/net/handshake.h"
#include "collectives/net/socket.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

// Limits on connections that have not yet proved that they know the secret: their number (beyond it
// the oldest is dropped) and the time that one is kept.
inline constexpr int64_t kMaxUnauthenticated = 128;
inline constexpr std::chrono::seconds kHandshakeTimeout{10};

// Thread safety: one thread at a time.
class Acceptor {
 public:
  struct Connection {
    int rank = 0;
    FileDescriptor socket;
    SessionKeys keys;
  };
  // Called for a connection that has proved that it knows the secret. An error is sent to the other
  // end, and the connection is dropped.
  using Admit = std::function<absl::Status(const RankClaim& claim)>;

  Acceptor(std::vector<FileDescriptor> listeners, HandshakeKey key, Admit admit)
      : listeners_(std::move(listeners)), key_(std::move(key)), admit_(std::move(admit)) {}

  // Closes the listening sockets, and all connections that have not been admitted. Not between
  // AppendEvents and Advance.
  void Close();

  // Appends the events that poll(2) should watch. Returns the latest time at which Advance must be
  // called.
  Deadline AppendEvents(std::vector<pollfd>* events);
  // Takes the events that the last AppendEvents appended, with poll's results. Returns the
  // connections that were admitted.
  std::vector<Connection> Advance(absl::Span<const pollfd> events);

 private:
  // A connection that has not proved yet that it knows the secret.
  struct Pending {
    Pending(FileDescriptor socket, Deadline accepted_at)
        : handshake(std::move(socket)), accepted_at(accepted_at) {}
    AcceptorHandshake handshake;
    const Deadline accepted_at;
  };

  // Returns true when the handshake has ended.
  bool AdvanceHandshake(AcceptorHandshake& handshake, std::vector<Connection>* admitted);
  void Accept(const FileDescriptor& listener);
  // Returns false if a connection cannot be accepted yet.
  bool MakeRoom();
  void DropOverdue();

  std::vector<FileDescriptor> listeners_;
  const HandshakeKey key_;
  const Admit admit_;
  std::list<Pending> pending_;  // in the order in which they were accepted
  Deadline accept_from_ = Deadline::min();
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_ACCEPTOR_H_
