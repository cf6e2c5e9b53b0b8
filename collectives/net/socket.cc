#include "collectives/net/socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

constexpr int kBacklog = 4096;  // the system may have a lower limit
// The longest attempt to connect to one of several addresses of a host.
constexpr std::chrono::seconds kConnectTimeout{2};

// Errors are ignored: the options affect speed and how early a failure is noticed.
void SetOption(int fd, int level, int option, int value) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

// A host that has lost its power sends nothing, so a peer counts as dead after 20 s of silence.
void TuneConnection(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

FileDescriptor NewSocket(int family) {
  return FileDescriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
}

// Returns whether a connection ends at its own socket. The system can assign the remote port, if it
// has no listener, as the local port too.
bool IsConnectedToItself(const FileDescriptor& socket) {
  sockaddr_storage own = {}, peer = {};
  socklen_t own_bytes = sizeof(own), peer_bytes = sizeof(peer);
  return getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 &&
         own_bytes == peer_bytes && std::memcmp(&own, &peer, own_bytes) == 0;
}

absl::StatusOr<FileDescriptor> ConnectToAddress(const SocketAddress& address, Deadline deadline) {
  ASSIGN_OR_RETURN(FileDescriptor socket, StartConnecting(address, nullptr));
  RETURN_IF_ERROR(WaitForEvents(socket.get(), POLLOUT, deadline));
  RETURN_IF_ERROR(ConnectionStatus(socket));
  return socket;
}

}  // namespace

int MillisecondsUntil(Deadline deadline) {
  const Deadline now = std::chrono::steady_clock::now();
  if (deadline <= now) return 0;
  const auto remaining = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  return static_cast<int>(std::min<int64_t>(remaining.count(), INT_MAX));
}

std::string FormatTimeout(std::chrono::milliseconds timeout) {
  return absl::StrFormat("%g s", static_cast<double>(timeout.count()) / 1e3);
}

absl::StatusOr<FileDescriptor> ListenAt(const SocketAddress& address) {
  FileDescriptor socket = NewSocket(address.family());
  if (!socket.is_open()) return absl::ErrnoToStatus(errno, "cannot make a socket");
  SetOption(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) SetOption(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.get(), address.get(), address.bytes()) != 0 ||
      listen(socket.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat("port ", address.port(), " is in use"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on ", address.text()));
  }
  return socket;
}

absl::StatusOr<FileDescriptor> ListenOn(Reach reach, int port) {
  if (reach == Reach::kLoopback) return ListenAt(SocketAddress::Loopback(port));
  absl::StatusOr<FileDescriptor> socket = ListenAt(SocketAddress::AnyIpv6(port));
  if (socket.ok() || absl::IsAlreadyExists(socket.status())) return socket;
  return ListenAt(SocketAddress::AnyIpv4(port));  // a host may have no IPv6
}

absl::StatusOr<FileDescriptor> AdoptListener(int fd) {
  if (fcntl(fd, F_GETFD) < 0) return absl::NotFoundError(absl::StrCat("descriptor ", fd));
  int listens = 0;
  socklen_t bytes = sizeof(listens);
  sockaddr_storage address = {};
  socklen_t address_bytes = sizeof(address);
  if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || listens == 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &address_bytes) != 0 ||
      (address.ss_family != AF_INET && address.ss_family != AF_INET6)) {
    return absl::InvalidArgumentError(
        absl::StrCat("descriptor ", fd, " is not a listening TCP socket"));
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return FileDescriptor(fd);
}

absl::StatusOr<SocketAddress> AddressOf(const FileDescriptor& socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return absl::ErrnoToStatus(errno, "a socket has no address");
  }
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address));
}

absl::StatusOr<int> PortOf(const FileDescriptor& socket) {
  ASSIGN_OR_RETURN(const SocketAddress address, AddressOf(socket));
  return address.port();
}

absl::StatusOr<SocketAddress> PeerAddressOf(const FileDescriptor& socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return absl::ErrnoToStatus(errno, "a socket is not connected");
  }
  return SocketAddress(reinterpret_cast<const sockaddr*>(&address));
}

absl::StatusOr<FileDescriptor> AcceptFrom(const FileDescriptor& listener) {
  FileDescriptor socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.is_open()) {
    TuneConnection(socket.get());
    return socket;
  }
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    return absl::ErrnoToStatus(errno, "cannot accept a connection");
  }
  return FileDescriptor();  // none, or it was closed meanwhile
}

absl::StatusOr<FileDescriptor> StartConnecting(const SocketAddress& remote,
                                               const SocketAddress* local) {
  FileDescriptor socket = NewSocket(remote.family());
  if (!socket.is_open()) return absl::UnavailableError(strerror(errno));
  TuneConnection(socket.get());
  if (local != nullptr && bind(socket.get(), local->get(), local->bytes()) != 0) {
    return absl::UnavailableError(absl::StrCat("from ", local->text(), ": ", strerror(errno)));
  }
  if (connect(socket.get(), remote.get(), remote.bytes()) != 0 && errno != EINPROGRESS) {
    return absl::UnavailableError(strerror(errno));
  }
  return socket;
}

absl::Status ConnectionStatus(const FileDescriptor& socket) {
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  if (error == 0 && IsConnectedToItself(socket)) error = ECONNREFUSED;
  return error == 0 ? absl::OkStatus() : absl::UnavailableError(strerror(error));
}

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& host, int port, Deadline deadline) {
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, ResolveHost(host, port));
  absl::Status status = absl::UnavailableError("no address");
  for (const SocketAddress& address : addresses) {
    absl::StatusOr<FileDescriptor> socket = ConnectToAddress(
        address, std::min(deadline, std::chrono::steady_clock::now() + kConnectTimeout));
    if (socket.ok()) return socket;
    status = socket.status();
  }
  return absl::UnavailableError(absl::StrCat(FormatAddress(host, port), ": ", status.message()));
}

void LimitUnacknowledged(const FileDescriptor& socket) {
  SetOption(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

absl::Status WaitForEvents(int fd, short events, Deadline deadline) {  // NOLINT(google-runtime-int)
  pollfd event = {fd, events, 0};
  int ready = 0;
  do {
    ready = poll(&event, 1, MillisecondsUntil(deadline));
  } while (ready < 0 && errno == EINTR);
  return ready == 0 ? absl::DeadlineExceededError("no answer") : absl::OkStatus();
}

}  // namespace tessera::comm
