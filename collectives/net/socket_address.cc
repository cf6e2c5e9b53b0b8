#include "collectives/net/socket_address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace tessera::comm {
namespace {

// Calls getaddrinfo(3) with `flags` and returns its error code.
int LookUp(const std::string& host, int port, int flags, std::vector<SocketAddress>* addresses) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (error != 0) return error;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    addresses->emplace_back(each->ai_addr);
  }
  return 0;
}

}  // namespace

SocketAddress::SocketAddress(const sockaddr* address) {
  const bool is_ipv6 = address->sa_family == AF_INET6;
  std::memcpy(&storage_, address, is_ipv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

absl::StatusOr<SocketAddress> SocketAddress::Parse(const std::string& host, int port) {
  std::vector<SocketAddress> addresses;
  if (LookUp(host, port, AI_NUMERICHOST, &addresses) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", host, "' is not an address"));
  }
  return addresses.front();
}

std::string SocketAddress::host() const {
  char text[NI_MAXHOST] = "";
  getnameinfo(get(), bytes(), text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  return text;
}

int SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

std::string SocketAddress::text() const { return FormatAddress(host(), port()); }

std::string FormatAddress(absl::string_view host, int port) {
  const bool is_ipv6 = absl::StrContains(host, ':');
  return absl::StrCat(is_ipv6 ? "[" : "", host, is_ipv6 ? "]:" : ":", port);
}

bool IsLocalhost(absl::string_view host) {
  absl::ConsumeSuffix(&host, ".");  // of an absolute name
  return absl::EqualsIgnoreCase(host, "localhost") || absl::EndsWithIgnoreCase(host, ".localhost");
}

bool IsLoopback(absl::string_view host) {
  return IsLocalhost(host) || host == "::1" || absl::StartsWith(host, "127.");
}

absl::StatusOr<std::vector<SocketAddress>> ResolveHost(const std::string& host, int port) {
  if (IsLocalhost(host)) {
    // Without /etc/hosts, as in some containers, the system would ask a name server, and wait.
    return std::vector<SocketAddress>{*SocketAddress::Parse("::1", port),
                                      SocketAddress::Loopback(port)};
  }
  std::vector<SocketAddress> addresses;
  const int error = LookUp(host, port, /*flags=*/0, &addresses);
  if (error == 0) return addresses;
  return absl::NotFoundError(absl::StrCat("host '", host, "': ", gai_strerror(error)));
}

}  // namespace tessera::comm
