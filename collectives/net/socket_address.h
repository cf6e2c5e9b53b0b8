// Addresses of TCP sockets, and the lookup of host names.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_NET_SOCKET_ADDRESS_H_
#define TESSERA_COLLECTIVES_NET_SOCKET_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tessera::comm {

// An IPv4 or IPv6 address with a port. A value type.
class SocketAddress {
 public:
  SocketAddress() = default;  // no address
  explicit SocketAddress(const sockaddr* address);

  static SocketAddress Loopback(int port) { return *Parse("127.0.0.1", port); }
  static SocketAddress AnyIpv4(int port) { return *Parse("0.0.0.0", port); }
  static SocketAddress AnyIpv6(int port) { return *Parse("::", port); }
  // `host` must be an address in digits; otherwise InvalidArgument.
  static absl::StatusOr<SocketAddress> Parse(const std::string& host, int port);

  int family() const { return storage_.ss_family; }
  std::string host() const;  // in digits
  int port() const;
  std::string text() const;  // "10.0.0.2:40123"

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t bytes() const {
    return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }

 private:
  sockaddr_storage storage_ = {};
};

// "node1:29500", "[fe80::1]:29500"
std::string FormatAddress(absl::string_view host, int port);

// Returns whether a name is "localhost" or below it ("rank.localhost"), in any case. Such names are
// the loopback interface by RFC 6761, and need no name service.
bool IsLocalhost(absl::string_view host);

// Returns whether a name or an address in digits is this host's loopback interface.
bool IsLoopback(absl::string_view host);

// Returns the addresses of a host, given by name or in digits. NotFound if it has none.
absl::StatusOr<std::vector<SocketAddress>> ResolveHost(const std::string& host, int port);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_NET_SOCKET_ADDRESS_H_
