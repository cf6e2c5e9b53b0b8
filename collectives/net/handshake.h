// The handshake by which both ends of a new connection prove that they know the job's secret
// (proof.h), and agree on keys for the digests of the frames that follow (frame_digest.h). Its
// messages have fixed sizes:
//
//   acceptor -> connector   Challenge: version, nonce
//   connector -> acceptor   Hello: version, rank, number of ranks, nonce, proof
//   acceptor -> connector   Welcome: proof; or the error for which it refuses the rank, with the
//                           proof if the connector's was valid
//
// Neither end reads a byte beyond them, so the socket can be handed on to any protocol afterwards.
// Nothing here blocks, except ProveIdentity.
//
// Thread safety: one thread at a time.
#ifndef TESSERA_COLLECTIVES_NET_HANDSHAKE_H_
#define TESSERA_COLLECTIVES_NET_HANDSHAKE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/net/socket.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

// The version of the protocols on connections. Ranks of another version are refused by name.
inline constexpr int kProtocolVersion = 4;

// The services that connections are made for. A proof for one service is not valid for another.
inline constexpr char kRendezvousService[] = "rendezvous";
inline constexpr char kTcpService[] = "tcp";

// The same at both ends.
struct HandshakeKey {
  std::string service;
  std::string job;
  std::string secret;
};

// The rank that a connector has, and the number of ranks of its job.
struct RankClaim {
  int rank = 0;
  int size = 0;
};

// The keys of one end of a connection.
struct SessionKeys {
  std::string send;     // for the digests of what this end sends
  std::string receive;  // for those of what the other end sends
};

// The end that accepted the connection.
class AcceptorHandshake {
 public:
  // Sends the challenge.
  explicit AcceptorHandshake(FileDescriptor socket);

  int fd() const { return socket_.get(); }

  // Reads the bytes that have arrived. Returns the connector's claim once it is complete and
  // proved, and nullopt before. Returns Unauthenticated if the other end is not a rank; the caller
  // should send any other error to the other end with Refuse.
  absl::StatusOr<std::optional<RankClaim>> Advance(const HandshakeKey& key);

  // Once Advance has returned a claim.
  const SessionKeys& keys() const { return keys_; }

  // End the handshake, once Advance has returned a claim or an error.
  FileDescriptor Welcome();
  void Refuse(const absl::Status& why);

 private:
  FileDescriptor socket_;
  const std::string nonce_;
  std::string hello_;      // the bytes that have arrived
  std::string own_proof_;  // once the other end has proved that it knows the secret
  SessionKeys keys_;
};

// The end that made the connection.
class ConnectorHandshake {
 public:
  // `address` is the acceptor's, for messages.
  ConnectorHandshake(HandshakeKey key, RankClaim claim, std::string address);

  // Continues as far as `socket` allows without waiting. Returns true once both ends have proved
  // that they know the secret. Errors: the acceptor's error if it refused; PermissionDenied if it
  // does not know the secret, or does not prove that it does when it refuses; Unavailable if it is
  // not Tessera or closed the connection.
  absl::StatusOr<bool> Advance(const FileDescriptor& socket);

  // Once Advance has returned true.
  const SessionKeys& keys() const { return keys_; }

 private:
  absl::Status SendHello(const FileDescriptor& socket);
  absl::StatusOr<bool> ReadWelcome(const FileDescriptor& socket);

  const HandshakeKey key_;
  const RankClaim claim_;
  const std::string address_;
  bool sent_hello_ = false;
  std::string received_;  // of the challenge, then of the welcome
  std::string expected_proof_;
  SessionKeys keys_;
};

// Waits until the connector's part of the handshake is complete, and returns the keys;
// DeadlineExceeded after `deadline`.
absl::StatusOr<SessionKeys> ProveIdentity(const FileDescriptor& socket, HandshakeKey key,
                                          RankClaim claim, std::string address, Deadline deadline);

// The messages, for tests.
std::string MakeChallenge(int version, absl::string_view nonce);
std::string MakeHello(int version, const RankClaim& claim, absl::string_view nonce,
                      absl::string_view proof);
std::string MakeWelcome(const absl::Status& status, absl::string_view proof);
// Return the nonce of a complete challenge or hello.
std::string NonceOfChallenge(absl::string_view challenge);
std::string NonceOfHello(absl::string_view hello);
extern const int64_t kChallengeBytes, kHelloBytes, kWelcomeBytes;

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_HANDSHAKE_H_
