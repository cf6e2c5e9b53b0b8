#include "collectives/rendezvous/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

constexpr int kBacklog = 4096;  // the system may have a lower limit
// For one address of a host: the others are to have a chance.
constexpr std::chrono::seconds kConnectTimeout{2};

void SetOption(int fd, int level, int option, int value) {
  // What these set is a matter of speed or of noticing early: no connection fails for want of it.
  setsockopt(fd, level, option, &value, sizeof(value));
}

// A host that has lost its power says nothing: after 20 s of silence it is taken for dead.
void TuneConnection(int fd) {
  SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  SetOption(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  SetOption(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

absl::StatusOr<FileDescriptor> ListenAt(const sockaddr* address, socklen_t bytes, int port) {
  FileDescriptor socket(
      ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return absl::ErrnoToStatus(errno, "cannot make a socket");
  SetOption(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address->sa_family == AF_INET6) SetOption(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.get(), address, bytes) != 0 || listen(socket.get(), kBacklog) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat("port ", port, " is in use"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot listen on port ", port));
  }
  return socket;
}

absl::Status WaitUntilConnected(int fd, Deadline deadline) {
  pollfd event = {fd, POLLOUT, 0};
  int ready = 0;
  do {
    ready = poll(&event, 1, MillisecondsUntil(deadline));
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return absl::UnavailableError("no answer");
  int error = 0;
  socklen_t bytes = sizeof(error);
  if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0) error = errno;
  return error == 0 ? absl::OkStatus() : absl::UnavailableError(strerror(error));
}

absl::StatusOr<FileDescriptor> ConnectToAddress(const addrinfo& address, Deadline deadline) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return absl::UnavailableError(strerror(errno));
  TuneConnection(socket.get());
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return absl::UnavailableError(strerror(errno));
    RETURN_IF_ERROR(WaitUntilConnected(socket.get(), deadline));
  }
  return socket;
}

// A connection to a port that nobody listens on may be given that very port as its own, and then
// has itself at the other end.
bool IsConnectedToItself(const FileDescriptor& socket) {
  sockaddr_storage own = {}, peer = {};
  socklen_t own_bytes = sizeof(own), peer_bytes = sizeof(peer);
  return getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &peer_bytes) == 0 &&
         own_bytes == peer_bytes && std::memcmp(&own, &peer, own_bytes) == 0;
}

}  // namespace

int MillisecondsUntil(Deadline deadline) {
  const Deadline now = std::chrono::steady_clock::now();
  if (deadline <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now);
  return static_cast<int>(std::min<int64_t>(left.count(), INT_MAX));
}

std::string FormatTimeout(std::chrono::milliseconds timeout) {
  return absl::StrFormat("%g s", static_cast<double>(timeout.count()) / 1e3);
}

std::string FormatAddress(absl::string_view host, int port) {
  const bool is_ipv6 = absl::StrContains(host, ':');
  return absl::StrCat(is_ipv6 ? "[" : "", host, is_ipv6 ? "]:" : ":", port);
}

absl::StatusOr<FileDescriptor> ListenOn(Reach reach, int port) {
  if (reach == Reach::kAnyHost) {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(port);
    absl::StatusOr<FileDescriptor> socket =
        ListenAt(reinterpret_cast<const sockaddr*>(&any), sizeof(any), port);
    // A host may have no IPv6.
    if (socket.ok() || absl::IsAlreadyExists(socket.status())) return socket;
  }
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(reach == Reach::kLoopback ? INADDR_LOOPBACK : INADDR_ANY);
  address.sin_port = htons(port);
  return ListenAt(reinterpret_cast<const sockaddr*>(&address), sizeof(address), port);
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

absl::StatusOr<int> PortOf(const FileDescriptor& socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  if (getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0) {
    return absl::ErrnoToStatus(errno, "a socket has no address");
  }
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
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
  return FileDescriptor();  // nobody there, or gone again
}

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& host, int port, Deadline deadline) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat("host '", host, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, freeaddrinfo);
  absl::Status status = absl::UnavailableError("no address");
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    absl::StatusOr<FileDescriptor> socket = ConnectToAddress(
        *address, std::min(deadline, std::chrono::steady_clock::now() + kConnectTimeout));
    if (socket.ok() && !IsConnectedToItself(*socket)) return socket;
    status = socket.ok() ? absl::UnavailableError(strerror(ECONNREFUSED)) : socket.status();
  }
  return absl::UnavailableError(absl::StrCat(FormatAddress(host, port), ": ", status.message()));
}

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> addresses;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return addresses;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, freeifaddrs);
  for (const ifaddrs* each = found; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0 ||
        (each->ifa_flags & IFF_LOOPBACK) != 0) {
      continue;
    }
    char text[INET6_ADDRSTRLEN] = "";
    if (each->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text,
                sizeof(text));
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr)->sin6_addr;
      if (!IN6_IS_ADDR_LINKLOCAL(&address)) inet_ntop(AF_INET6, &address, text, sizeof(text));
    }
    if (text[0] != '\0') addresses.emplace_back(text);
  }
  return addresses;
}

}  // namespace tessera::comm
