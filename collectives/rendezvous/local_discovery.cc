#include "collectives/rendezvous/local_discovery.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collectives/net/owners.h"
#include "collectives/net/proof.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

constexpr int kBacklog = 4096;
constexpr size_t kMaxAnswerBytes = 1024;
constexpr int kMaxAnswersAtOnce = 64;

struct SocketName {
  sockaddr_un address = {};
  socklen_t bytes = 0;
};

// A name that starts with a zero byte is not a file.
SocketName NameOf(absl::string_view job) {
  const std::string text = absl::StrCat("tessera/", getuid(), "/", DigestOf(job));
  SocketName name;
  name.address.sun_family = AF_UNIX;
  TESSERA_CHECK(text.size() + 1 < sizeof(name.address.sun_path));
  std::memcpy(name.address.sun_path + 1, text.data(), text.size());
  name.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

absl::StatusOr<FileDescriptor> UnixSocket() {
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return absl::ErrnoToStatus(errno, "cannot make a Unix socket");
  return socket;
}

// Returns the user at the other end of a connection: of the process that called connect, or listen.
std::optional<uid_t> UserOfPeer(const FileDescriptor& socket) {
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return std::nullopt;
  return peer.uid;
}

// Connects a socket to a name; returns whether that succeeded.
bool Connect(const FileDescriptor& socket, const SocketName& name) {
  return connect(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) == 0;
}

// Returns the error if the name of a job belongs to another user, who can keep ranks from finding
// each other there, but not learn anything.
absl::Status HeldByAnotherUser(absl::string_view job, absl::string_view holder) {
  return absl::PermissionDeniedError(
      absl::StrCat(holder, " holds the name under which ranks of the job '", job,
                   "' find each other on this host: set TESSERA_SECRET, and give ",
                   "--rendezvous=127.0.0.1:PORT with a free port, to every rank"));
}

// Returns the error for a name that is bound already.
absl::Status NameInUse(absl::string_view job, const SocketName& name) {
  ASSIGN_OR_RETURN(const FileDescriptor socket, UnixSocket());
  if (Connect(socket, name)) {
    const std::optional<uid_t> user = UserOfPeer(socket);
    if (user.has_value() && *user != getuid()) return HeldByAnotherUser(job, FormatUser(*user));
  } else if (errno == ECONNREFUSED) {
    // Without a listener the system does not say who has bound the name.
    return HeldByAnotherUser(job, "a program that does not listen");
  }
  return absl::AlreadyExistsError(absl::StrCat("a rank 0 of the job '", job,
                                               "' is running on this host: wait until its ranks "
                                               "have joined, or set TESSERA_SECRET and "
                                               "MASTER_PORT"));
}

// Returns everything that the other side sends until it closes.
absl::StatusOr<std::string> ReadAnswer(const FileDescriptor& socket, Deadline deadline) {
  std::string answer;
  std::array<char, kMaxAnswerBytes> bytes;
  while (answer.size() <= kMaxAnswerBytes) {
    if (!WaitForEvents(socket.get(), POLLIN, deadline).ok()) {
      return absl::UnavailableError("rank 0 does not answer on the local socket");
    }
    const ssize_t got = read(socket.get(), bytes.data(), bytes.size());
    if (got == 0) return answer;
    if (got > 0) answer.append(bytes.data(), got);
    if (got < 0 && errno != EAGAIN && errno != EINTR) break;
  }
  return absl::UnavailableError("rank 0's answer on the local socket is incomplete");
}

}  // namespace

absl::StatusOr<FileDescriptor> OpenLocalDiscovery(absl::string_view job) {
  const SocketName name = NameOf(job);
  ASSIGN_OR_RETURN(FileDescriptor socket, UnixSocket());
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&name.address), name.bytes) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) return NameInUse(job, name);
    return absl::ErrnoToStatus(errno, "cannot open a local socket");
  }
  return socket;
}

void AnswerLocalRanks(const FileDescriptor& discovery, int port, absl::string_view secret) {
  const std::string answer = absl::StrCat(port, " ", secret);
  for (int i = 0; i < kMaxAnswersAtOnce; ++i) {
    const FileDescriptor peer(
        accept4(discovery.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer.is_open()) return;
    if (UserOfPeer(peer) != getuid()) continue;
    // So few bytes always fit into the socket's buffer. An error means that the peer is gone.
    (void)!send(peer.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  }
}

absl::StatusOr<StoreAddress> DiscoverRankZero(absl::string_view job, Deadline deadline) {
  const SocketName name = NameOf(job);
  ASSIGN_OR_RETURN(const FileDescriptor socket, UnixSocket());
  if (!Connect(socket, name)) {
    return absl::UnavailableError(
        absl::StrCat("rank 0 of the job '", job, "' is not on this host"));
  }
  if (const std::optional<uid_t> user = UserOfPeer(socket); user != getuid()) {
    return HeldByAnotherUser(job, user.has_value() ? FormatUser(*user) : "another user");
  }
  ASSIGN_OR_RETURN(const std::string answer, ReadAnswer(socket, deadline));
  const std::pair<std::string, std::string> halves =
      absl::StrSplit(answer, absl::MaxSplits(' ', 1));
  StoreAddress address = {"127.0.0.1", /*port=*/0, halves.second};
  if (!absl::SimpleAtoi(halves.first, &address.port) || address.port < 1 || address.port > 65535) {
    return absl::UnavailableError("rank 0's answer on the local socket is incomplete");
  }
  return address;
}

}  // namespace tessera::comm
