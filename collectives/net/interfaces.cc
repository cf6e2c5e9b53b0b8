#include "collectives/net/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/net/socket.h"

namespace tessera::comm {
namespace {

struct Interface {
  std::string name;
  bool is_loopback = false;
  SocketAddress address;
};

bool IsLinkLocal(const sockaddr* address) {
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// Returns an entry for each address of an interface that is up.
std::vector<Interface> InterfacesUp() {
  std::vector<Interface> interfaces;
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) return interfaces;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(found, freeifaddrs);
  for (const ifaddrs* entry = found; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || IsLinkLocal(entry->ifa_addr)) continue;
    interfaces.push_back(
        {entry->ifa_name, (entry->ifa_flags & IFF_LOOPBACK) != 0, SocketAddress(entry->ifa_addr)});
  }
  return interfaces;
}

// Returns the source address that the system chooses for packets to `address`. Connecting a UDP
// socket sends nothing.
std::optional<SocketAddress> SourceOfRouteTo(const SocketAddress& address) {
  const FileDescriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() || connect(socket.get(), address.get(), address.bytes()) != 0) {
    return std::nullopt;
  }
  const absl::StatusOr<SocketAddress> source = AddressOf(socket);
  if (!source.ok()) return std::nullopt;
  const absl::StatusOr<SocketAddress> without_port = SocketAddress::Parse(source->host(), 0);
  return without_port.ok() ? std::make_optional(*without_port) : std::nullopt;
}

}  // namespace

std::vector<std::string> OwnAddresses() {
  std::vector<std::string> addresses;
  for (const Interface& interface : InterfacesUp()) {
    if (!interface.is_loopback) addresses.push_back(interface.address.host());
  }
  return addresses;
}

bool IsOfThisHost(const std::string& address) {
  if (IsLoopback(address)) return true;
  const std::vector<std::string> own = OwnAddresses();
  return std::find(own.begin(), own.end(), address) != own.end();
}

absl::StatusOr<SocketAddress> AddressOfInterface(const std::string& interface) {
  absl::StatusOr<SocketAddress> parsed = SocketAddress::Parse(interface, 0);
  if (parsed.ok()) return parsed;
  std::optional<SocketAddress> address;
  std::vector<std::string> names;
  for (const Interface& up : InterfacesUp()) {
    if (std::find(names.begin(), names.end(), up.name) == names.end()) names.push_back(up.name);
    const bool has_ipv4 = address.has_value() && address->family() == AF_INET;
    if (up.name == interface && !has_ipv4) address = up.address;
  }
  if (address.has_value()) return *address;
  return absl::NotFoundError(absl::StrCat(
      "'", interface, "' is neither an address nor an interface of this host that is up: ",
      absl::StrJoin(names, ", ")));
}

absl::StatusOr<SocketAddress> AddressTowards(const std::vector<std::string>& peer_addresses) {
  const std::vector<std::string> own = OwnAddresses();
  for (const std::string& text : peer_addresses) {
    if (std::find(own.begin(), own.end(), text) != own.end()) continue;
    // No packet is sent, so the port does not matter.
    const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(text, /*port=*/9);
    if (!address.ok()) continue;
    const std::optional<SocketAddress> source = SourceOfRouteTo(*address);
    if (source.has_value()) return *source;
  }
  return absl::NotFoundError(absl::StrCat("no interface of this host has a route to ",
                                          absl::StrJoin(peer_addresses, ", ")));
}

}  // namespace tessera::comm
