#include "collectives/net/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "collectives/net/proof.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

constexpr uint32_t kMaxRefusalBytes = 512;

// The first bytes of the challenge and of the hello.
struct Preamble {
  char name[8] = {'T', 'e', 's', 's', 'e', 'r', 'a', '\n'};
  uint32_t byte_order = 0x01020304;  // messages are in the sender's own
  int32_t version = 0;
};

struct ChallengeMessage {
  Preamble preamble;
  char nonce[kNonceBytes] = {};
};
static_assert(sizeof(ChallengeMessage) == 48);

struct HelloMessage {
  Preamble preamble;
  int32_t rank = 0;
  int32_t size = 0;
  char nonce[kNonceBytes] = {};
  char proof[kProofBytes] = {};
};
static_assert(sizeof(HelloMessage) == 88);

// Followed by the text of the error, if there is one.
struct WelcomeMessage {
  int32_t code = 0;  // an absl::StatusCode
  uint32_t text_bytes = 0;
  char proof[kProofBytes] = {};
};
static_assert(sizeof(WelcomeMessage) == 40);

template <typename Message>
std::string Bytes(const Message& message) {
  return std::string(reinterpret_cast<const char*>(&message), sizeof(message));
}

template <typename Message>
Message FromBytes(absl::string_view bytes) {
  Message message;
  std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof(message));
  return message;
}

template <size_t kSize>
void CopyText(absl::string_view text, char (&to)[kSize]) {
  std::memcpy(to, text.data(), std::min(text.size(), kSize));
}

template <size_t kSize>
std::string TextOf(const char (&bytes)[kSize]) {
  return std::string(bytes, kSize);
}

// Returns whether `arrived` can be the beginning of a challenge or a hello.
bool MayBePreamble(absl::string_view arrived) {
  const Preamble expected;
  const size_t compared = std::min(arrived.size(), offsetof(Preamble, version));
  return std::memcmp(arrived.data(), &expected, compared) == 0;
}

// Receives until `buffer` has `bytes` bytes; returns false if more must arrive first.
absl::StatusOr<bool> ReceiveUpTo(int fd, size_t bytes, std::string* buffer) {
  while (buffer->size() < bytes) {
    char received[sizeof(HelloMessage) + kMaxRefusalBytes];
    const size_t wanted = std::min(bytes - buffer->size(), sizeof(received));
    const ssize_t got = recv(fd, received, wanted, /*flags=*/0);
    if (got > 0) {
      buffer->append(received, got);
    } else if (got == 0) {
      return absl::UnavailableError("the connection was closed");
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      return absl::UnavailableError(
          absl::StrCat("the connection was closed: ", std::strerror(errno)));
    }
  }
  return true;
}

// Sends a message of the handshake. Its few messages fit into the buffer of a new socket.
absl::Status SendAtOnce(int fd, absl::string_view bytes) {
  const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::UnavailableError(
      sent < 0 ? absl::StrCat("the connection was closed: ", std::strerror(errno))
               : "the connection takes no message");
}

absl::Status OtherVersion(int version) {
  return absl::FailedPreconditionError(absl::StrCat("the other end speaks version ", version,
                                                    " of Tessera's protocol, and this one "
                                                    "version ",
                                                    kProtocolVersion,
                                                    ": start the same build on every host"));
}

}  // namespace

const int64_t kChallengeBytes = sizeof(ChallengeMessage);
const int64_t kHelloBytes = sizeof(HelloMessage);
const int64_t kWelcomeBytes = sizeof(WelcomeMessage);

std::string MakeChallenge(int version, absl::string_view nonce) {
  ChallengeMessage challenge;
  challenge.preamble.version = version;
  CopyText(nonce, challenge.nonce);
  return Bytes(challenge);
}

std::string MakeHello(int version, const RankClaim& claim, absl::string_view nonce,
                      absl::string_view proof) {
  HelloMessage hello;
  hello.preamble.version = version;
  hello.rank = claim.rank;
  hello.size = claim.size;
  CopyText(nonce, hello.nonce);
  CopyText(proof, hello.proof);
  return Bytes(hello);
}

std::string MakeWelcome(const absl::Status& status, absl::string_view proof) {
  const absl::string_view text = status.message().substr(0, kMaxRefusalBytes);
  WelcomeMessage welcome;
  welcome.code = static_cast<int32_t>(status.code());
  welcome.text_bytes = static_cast<uint32_t>(text.size());
  CopyText(proof, welcome.proof);
  return absl::StrCat(Bytes(welcome), text);
}

std::string NonceOfChallenge(absl::string_view challenge) {
  return TextOf(FromBytes<ChallengeMessage>(challenge).nonce);
}

std::string NonceOfHello(absl::string_view hello) {
  return TextOf(FromBytes<HelloMessage>(hello).nonce);
}

AcceptorHandshake::AcceptorHandshake(FileDescriptor socket)
    : socket_(std::move(socket)), nonce_(RandomBytes(kNonceBytes)) {
  // Advance would return the same error.
  SendAtOnce(fd(), MakeChallenge(kProtocolVersion, nonce_)).IgnoreError();
}

absl::StatusOr<std::optional<RankClaim>> AcceptorHandshake::Advance(const HandshakeKey& key) {
  const absl::StatusOr<bool> complete = ReceiveUpTo(fd(), sizeof(HelloMessage), &hello_);
  if (!MayBePreamble(hello_)) return absl::UnauthenticatedError("not Tessera");
  if (!complete.ok()) return absl::UnauthenticatedError(complete.status().message());
  if (!*complete) return std::nullopt;
  const auto hello = FromBytes<HelloMessage>(hello_);
  if (hello.preamble.version != kProtocolVersion) return OtherVersion(hello.preamble.version);
  const std::string connector_nonce = TextOf(hello.nonce);
  const ProofInput input = {key.secret,      key.job,    key.service, nonce_,
                            connector_nonce, hello.rank, hello.size};
  if (!SameProof(TextOf(hello.proof), ConnectorProof(input))) {
    return absl::PermissionDeniedError(
        "the other end has another secret or belongs to another job: TESSERA_SECRET must be the "
        "same for all ranks");
  }
  own_proof_ = AcceptorProof(input);
  keys_ = {.send = AcceptorKey(input), .receive = ConnectorKey(input)};
  return RankClaim{hello.rank, hello.size};
}

FileDescriptor AcceptorHandshake::Welcome() {
  // The next use of the socket would return the same error.
  SendAtOnce(fd(), MakeWelcome(absl::OkStatus(), own_proof_)).IgnoreError();
  return std::move(socket_);
}

void AcceptorHandshake::Refuse(const absl::Status& why) {
  SendAtOnce(fd(), MakeWelcome(why, own_proof_)).IgnoreError();
  socket_.Close();
}

ConnectorHandshake::ConnectorHandshake(HandshakeKey key, RankClaim claim, std::string address)
    : key_(std::move(key)), claim_(claim), address_(std::move(address)) {}

absl::StatusOr<bool> ConnectorHandshake::Advance(const FileDescriptor& socket) {
  if (!sent_hello_) {
    const auto complete = ReceiveUpTo(socket.get(), sizeof(ChallengeMessage), &received_);
    if (!MayBePreamble(received_)) {
      return absl::UnavailableError(
          absl::StrCat("the program that listens at ", address_, " is not Tessera"));
    }
    RETURN_IF_ERROR(complete.status());
    if (!*complete) return false;
    RETURN_IF_ERROR(SendHello(socket));
  }
  return ReadWelcome(socket);
}

absl::Status ConnectorHandshake::SendHello(const FileDescriptor& socket) {
  const auto challenge = FromBytes<ChallengeMessage>(received_);
  if (challenge.preamble.version != kProtocolVersion) {
    return OtherVersion(challenge.preamble.version);
  }
  const std::string acceptor_nonce = TextOf(challenge.nonce);
  const std::string nonce = RandomBytes(kNonceBytes);
  const ProofInput input = {key_.secret, key_.job,    key_.service, acceptor_nonce,
                            nonce,       claim_.rank, claim_.size};
  expected_proof_ = AcceptorProof(input);
  keys_ = {.send = ConnectorKey(input), .receive = AcceptorKey(input)};
  received_.clear();
  sent_hello_ = true;
  return SendAtOnce(socket.get(),
                    MakeHello(kProtocolVersion, claim_, nonce, ConnectorProof(input)));
}

absl::StatusOr<bool> ConnectorHandshake::ReadWelcome(const FileDescriptor& socket) {
  ASSIGN_OR_RETURN(const bool complete,
                   ReceiveUpTo(socket.get(), sizeof(WelcomeMessage), &received_));
  if (!complete) return false;
  const auto welcome = FromBytes<WelcomeMessage>(received_);
  const bool is_proved = SameProof(TextOf(welcome.proof), expected_proof_);
  if (welcome.code == 0) {
    if (is_proved) return true;
    return absl::PermissionDeniedError(
        absl::StrCat("the program at ", address_, " does not know this job's secret"));
  }
  const uint32_t text_bytes = std::min(welcome.text_bytes, kMaxRefusalBytes);
  ASSIGN_OR_RETURN(const bool has_text,
                   ReceiveUpTo(socket.get(), sizeof(WelcomeMessage) + text_bytes, &received_));
  if (!has_text) return false;
  // Whoever sent it: the text must not reach a terminal unescaped.
  const std::string text = absl::Utf8SafeCHexEscape(received_.substr(sizeof(WelcomeMessage)));
  if (is_proved) return absl::Status(static_cast<absl::StatusCode>(welcome.code), text);
  return absl::PermissionDeniedError(absl::StrCat(
      "the program at ", address_,
      ", which does not prove that it knows this job's secret, refuses this rank: ", text));
}

absl::StatusOr<SessionKeys> ProveIdentity(const FileDescriptor& socket, HandshakeKey key,
                                          RankClaim claim, std::string address, Deadline deadline) {
  ConnectorHandshake handshake(std::move(key), claim, std::move(address));
  while (true) {
    ASSIGN_OR_RETURN(const bool is_proved, handshake.Advance(socket));
    if (is_proved) return handshake.keys();
    RETURN_IF_ERROR(WaitForEvents(socket.get(), POLLIN, deadline));
  }
}

}  // namespace tessera::comm
