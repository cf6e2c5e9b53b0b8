#include "collectives/net/owners.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collectives/net/interfaces.h"

namespace tessera::comm {
namespace {

constexpr char kListening[] = "0A";  // a state in /proc/net/tcp

struct Listener {
  uid_t user = 0;
  std::string inode;  // of its socket
};

// Returns whether a listener at `local` accepts connections to `address`: it is the same address,
// or all addresses, with the same port. `local` is as in /proc/net/tcp or tcp6, such as
// "0100007F:1F90": words as they are in memory, then the port.
bool Accepts(const std::string& local, const SocketAddress& address) {
  const std::pair<std::string, std::string> halves = absl::StrSplit(local, ':');
  uint32_t port = 0;
  if (!absl::SimpleHexAtoi(halves.second, &port) || static_cast<int>(port) != address.port()) {
    return false;
  }
  std::string bytes;
  for (size_t begin = 0; begin + 8 <= halves.first.size(); begin += 8) {
    uint32_t word = 0;
    if (!absl::SimpleHexAtoi(halves.first.substr(begin, 8), &word)) return false;
    bytes.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  const auto is_zero = [](char byte) { return byte == 0; };
  if (std::all_of(bytes.begin(), bytes.end(), is_zero)) return true;
  const sockaddr* const raw = address.get();
  const bool is_ipv6 = address.family() == AF_INET6;
  const void* const own =
      is_ipv6 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(raw)->sin6_addr)
              : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(raw)->sin_addr);
  const size_t own_bytes = is_ipv6 ? sizeof(in6_addr) : sizeof(in_addr);
  return bytes.size() == own_bytes && std::memcmp(bytes.data(), own, own_bytes) == 0;
}

// Searches the kernel's tables of sockets for one that listens at the address.
std::optional<Listener> FindListener(const SocketAddress& address) {
  for (const char* table : {"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      // sl, local address, remote address, state, queues, timer, retransmits, user, time-out, inode
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      Listener listener;
      if (words.size() < 10 || words[3] != kListening || !Accepts(words[1], address) ||
          !absl::SimpleAtoi(words[7], &listener.user)) {
        continue;
      }
      listener.inode = words[9];
      return listener;
    }
  }
  return std::nullopt;
}

// Calls `visit` with the name of each entry of a folder, until it returns true. Returns whether it
// did.
bool AnyEntry(const std::string& folder, const std::function<bool(const char* name)>& visit) {
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return false;
  bool found = false;
  while (const dirent* entry = found ? nullptr : readdir(entries)) found = visit(entry->d_name);
  closedir(entries);
  return found;
}

// Returns "process 4711 (nc)", or "" if the system does not show the socket's process.
std::string FormatProcessOf(const std::string& inode) {
  const std::string target = absl::StrCat("socket:[", inode, "]");
  std::string text;
  AnyEntry("/proc", [&](const char* process) {
    if (std::isdigit(static_cast<unsigned char>(process[0])) == 0) return false;
    const std::string folder = absl::StrCat("/proc/", process, "/fd");
    const bool has_it = AnyEntry(folder, [&](const char* descriptor) {
      char link[64] = "";
      const std::string path = absl::StrCat(folder, "/", descriptor);
      return readlink(path.c_str(), link, sizeof(link) - 1) > 0 && target == link;
    });
    if (!has_it) return false;
    std::string name;
    std::ifstream comm(absl::StrCat("/proc/", process, "/comm"));
    std::getline(comm, name);
    // A program chooses its name.
    text = absl::StrCat("process ", process, " (", absl::Utf8SafeCHexEscape(name), ")");
    return true;
  });
  return text;
}

}  // namespace

std::string FormatUser(uid_t user) {
  passwd entry = {};
  passwd* found = nullptr;
  std::vector<char> memory(16384);
  std::string number = absl::StrCat("user ", user);
  if (getpwuid_r(user, &entry, memory.data(), memory.size(), &found) != 0 || found == nullptr) {
    return number;
  }
  return absl::StrCat(number, " (", entry.pw_name, ")");
}

std::string FormatListener(const SocketAddress& address) {
  if (!IsOfThisHost(address.host())) return "";
  const std::optional<Listener> listener = FindListener(address);
  if (!listener.has_value()) return "";
  const std::string process = FormatProcessOf(listener->inode);
  return absl::StrCat(process, process.empty() ? "" : " of ", FormatUser(listener->user),
                      " listens there");
}

}  // namespace tessera::comm
