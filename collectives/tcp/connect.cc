#include "collectives/tcp/connect.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <list>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/host_identity.h"
#include "collectives/rendezvous/socket.h"
#include "core/status/status_macros.h"

namespace tessera::comm::tcp {
namespace {

using Clock = std::chrono::steady_clock;
using Secret = std::array<char, 16>;

// Strangers who may be connected at once; who comes then takes the place of the first.
constexpr size_t kStrangers = 64;
constexpr auto kRetryAfter = std::chrono::milliseconds(50);

// What each end says first.
struct Greeting {
  char name[8] = {'T', 'e', 's', 's', 'e', 'r', 'a', '1'};  // 1: the version
  uint32_t byte_order = 0x01020304;
  int32_t from = 0, to = 0;
  uint32_t unused = 0;
  Secret secret = {};  // of whom it is said to
};
static_assert(sizeof(Greeting) == 40);

struct Endpoint {
  sockaddr_storage storage = {};
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  socklen_t length() const {
    return storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  }
  std::string address() const {
    char text[NI_MAXHOST] = "";
    getnameinfo(get(), length(), text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
    return text;
  }
  int port() const {
    return ntohs(storage.ss_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port
                     : reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
  }
};

absl::StatusOr<Endpoint> ParseEndpoint(const std::string& address, const std::string& port) {
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), port.c_str(), &hints, &found) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is no address"));
  }
  Endpoint endpoint;
  std::memcpy(&endpoint.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return endpoint;
}

// The address of the interface of that name; of the first that leads away from this host, if there
// is no name.
absl::StatusOr<Endpoint> OfInterface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return absl::ErrnoToStatus(errno, "cannot list network interfaces");
  Endpoint endpoint;
  std::vector<std::string> names;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && (family != AF_INET6 || name.empty())) continue;
    names.emplace_back(each->ifa_name);
    const bool fits = name.empty() ? (each->ifa_flags & IFF_LOOPBACK) == 0 : name == each->ifa_name;
    if (!fits || endpoint.storage.ss_family == AF_INET) continue;
    std::memcpy(&endpoint.storage, each->ifa_addr,
                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  }
  freeifaddrs(all);
  if (endpoint.storage.ss_family != 0) return endpoint;
  return absl::NotFoundError(
      absl::StrCat("'", name, "' is neither an address nor an interface of this host that is up: ",
                   absl::StrJoin(names, ", ")));
}

absl::StatusOr<Endpoint> LocalEndpoint(const std::string& interface, bool one_host) {
  if (interface.empty()) return one_host ? ParseEndpoint("127.0.0.1", "0") : OfInterface("");
  auto endpoint = ParseEndpoint(interface, "0");
  return endpoint.ok() ? endpoint : OfInterface(interface);
}

std::string HostName() {
  char name[65] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

FileDescriptor NewSocket(const Endpoint& local) {
  FileDescriptor result(
      socket(local.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (bind(result.get(), local.get(), local.length()) != 0) return FileDescriptor();
  return result;
}

// A host that has lost its power says nothing: where nothing is sent to it either, it is taken for
// dead after 20 s. (Where something is, the time-out of operations is all there is: a system that
// answers, and a process that does not read, may be stopped for longer.)
void Tune(int socket) {
  const auto set = [socket](int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

class Meeting {
 public:
  Meeting(int rank, int size) : rank_(rank), others_(size) {}

  // Collective. Tells all where this rank is, and finds out where they are.
  absl::Status Introduce(const Exchange& exchange, const std::string& interface);
  // Connects with all.
  absl::Status Meet(double timeout_seconds);
  std::vector<Peer> Take();

 private:
  struct Other {
    Peer peer;
    Endpoint endpoint;
    Secret secret = {};
    FileDescriptor socket;
    std::string trouble;  // with the last attempt
    Clock::time_point retry;
    bool there = false;
  };
  // A connection that is not known to be one of the job.
  struct Attempt {
    FileDescriptor socket;
    int to = -1;              // whom this rank has called; -1: it was called
    bool is_greeted = false;  // by this rank
    Greeting greeting;        // of the other end
    size_t got = 0;
  };

  absl::Status Listen(const Endpoint& local);
  bool AllThere() const;
  void Call(int to);
  void Accept();
  // Whether the attempt is still one.
  bool Go(Attempt& attempt);
  bool Greet(Attempt& attempt, int to);
  bool Failed(const Attempt& attempt, absl::string_view why);
  absl::Status Missing() const;

  const int rank_;
  Clock::time_point deadline_;
  std::vector<Other> others_;  // by rank; this one too
  Endpoint local_;
  FileDescriptor listening_;
  std::list<Attempt> attempts_;
};

absl::Status Meeting::Listen(const Endpoint& local) {
  local_ = local;
  listening_ = NewSocket(local);
  Endpoint bound;
  socklen_t length = sizeof(bound.storage);
  if (listening_.get() < 0 || listen(listening_.get(), SOMAXCONN) != 0 ||
      getsockname(listening_.get(), bound.get(), &length) != 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, absl::StrCat("cannot listen on ", local.address()));
  }
  Other& self = others_[rank_];
  self.endpoint = bound;
  if (getrandom(self.secret.data(), self.secret.size(), 0) !=
      static_cast<ssize_t>(self.secret.size())) {
    return absl::ErrnoToStatus(errno, "cannot make a secret");
  }
  return absl::OkStatus();
}

absl::Status Meeting::Introduce(const Exchange& exchange, const std::string& interface) {
  const std::string identity = HostIdentity();
  ASSIGN_OR_RETURN(const std::vector<std::string> hosts, exchange("tcp/host", identity));
  const bool one_host = std::all_of(hosts.begin(), hosts.end(),
                                    [&](const std::string& host) { return host == identity; });
  const auto local = LocalEndpoint(interface, one_host);
  const absl::Status status = local.ok() ? Listen(*local) : local.status();
  const Other& self = others_[rank_];
  const std::string mine =
      status.ok() ? absl::StrCat(self.endpoint.address(), " ", self.endpoint.port(), " ",
                                 absl::BytesToHexString({self.secret.data(), self.secret.size()}),
                                 " ", getpid(), " ", HostName())
                  : absl::StrCat("error: ", status.message());
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, exchange("tcp/address", mine));
  for (size_t r = 0; r < texts.size(); ++r) {
    absl::string_view text = texts[r];
    if (absl::ConsumePrefix(&text, "error: ")) {
      return absl::UnavailableError(absl::StrCat("rank ", r, ": ", text));
    }
    const std::vector<std::string> words = absl::StrSplit(text, ' ');
    Other& other = others_[r];
    if (words.size() != 5 || words[2].size() != 2 * other.secret.size() ||
        !absl::SimpleAtoi(words[3], &other.peer.process)) {
      return absl::InternalError(absl::StrCat("'", text, "' of rank ", r, " is no address"));
    }
    ASSIGN_OR_RETURN(other.endpoint, ParseEndpoint(words[0], words[1]));
    const std::string secret = absl::HexStringToBytes(words[2]);
    std::copy(secret.begin(), secret.end(), other.secret.begin());
    other.peer.host = words[4];
    other.peer.address = absl::StrCat(words[0], " port ", words[1]);
  }
  others_[rank_].there = true;
  return absl::OkStatus();
}

bool Meeting::AllThere() const {
  return std::all_of(others_.begin(), others_.end(),
                     [](const Other& other) { return other.there; });
}

// A rank calls those before it, and is called by those behind it.
void Meeting::Call(int to) {
  Other& other = others_[to];
  other.retry = deadline_;  // not before this attempt has failed
  Attempt& attempt = attempts_.emplace_back();
  attempt.to = to;
  attempt.socket = NewSocket(local_);
  const bool called =
      attempt.socket.get() >= 0 &&
      (connect(attempt.socket.get(), other.endpoint.get(), other.endpoint.length()) == 0 ||
       errno == EINPROGRESS);
  if (called) return;
  Failed(attempt, std::strerror(errno));
  attempts_.pop_back();
}

void Meeting::Accept() {
  for (;;) {
    FileDescriptor socket(
        accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.get() < 0) return;
    const auto is_called = [](const Attempt& attempt) { return attempt.to < 0; };
    if (std::count_if(attempts_.begin(), attempts_.end(), is_called) >=
        static_cast<int64_t>(kStrangers + others_.size())) {
      attempts_.erase(std::find_if(attempts_.begin(), attempts_.end(), is_called));
    }
    attempts_.emplace_back().socket = std::move(socket);
  }
}

bool Meeting::Failed(const Attempt& attempt, absl::string_view why) {
  if (attempt.to >= 0) {
    others_[attempt.to].trouble = std::string(why);
    others_[attempt.to].retry = Clock::now() + kRetryAfter;
  }
  return false;
}

bool Meeting::Greet(Attempt& attempt, int to) {
  Greeting mine;
  mine.from = rank_;
  mine.to = to;
  mine.secret = others_[to].secret;
  attempt.is_greeted = true;
  return send(attempt.socket.get(), &mine, sizeof(mine), MSG_NOSIGNAL) == sizeof(mine);
}

bool Meeting::Go(Attempt& attempt) {
  if (attempt.to >= 0 && !attempt.is_greeted) {
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return Failed(attempt, std::strerror(error));
    if (!Greet(attempt, attempt.to)) return Failed(attempt, std::strerror(errno));
    return true;
  }
  // No byte more than the greeting: what comes behind it is not for us.
  const ssize_t got =
      recv(attempt.socket.get(), reinterpret_cast<char*>(&attempt.greeting) + attempt.got,
           sizeof(Greeting) - attempt.got, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return Failed(attempt, got == 0 ? "it closed the connection" : strerror(errno));
  attempt.got += got;
  if (attempt.got < sizeof(Greeting)) return true;

  const Greeting& theirs = attempt.greeting;
  Greeting expected;
  expected.from = attempt.to >= 0 ? attempt.to : theirs.from;
  expected.to = rank_;
  expected.secret = others_[rank_].secret;
  if (std::memcmp(&theirs, &expected, sizeof(Greeting)) != 0) {
    return Failed(attempt, "another program is there");
  }
  if (attempt.to < 0) {
    const bool is_due = theirs.from > rank_ && theirs.from < static_cast<int>(others_.size());
    if (!is_due || !Greet(attempt, theirs.from)) return false;
  }
  Other& other = others_[theirs.from];
  Tune(attempt.socket.get());
  other.socket = std::move(attempt.socket);
  other.there = true;
  return false;
}

absl::Status Meeting::Missing() const {
  std::vector<std::string> missing;
  for (size_t r = 0; r < others_.size(); ++r) {
    const Other& other = others_[r];
    if (other.there) continue;
    missing.push_back(absl::StrCat("rank ", r, " (process ", other.peer.process, " on ",
                                   other.peer.host, ", ", other.peer.address,
                                   other.trouble.empty() ? "" : ": ", other.trouble, ")"));
  }
  return absl::UnavailableError(
      absl::StrCat("rank ", rank_, " has no connection with ", absl::StrJoin(missing, ", ")));
}

absl::Status Meeting::Meet(double timeout_seconds) {
  const Clock::time_point begin = Clock::now();
  deadline_ = begin + std::chrono::duration_cast<Clock::duration>(
                          std::chrono::duration<double>(timeout_seconds));
  for (int r = 0; r < rank_; ++r) others_[r].retry = begin;
  while (!AllThere()) {
    const Clock::time_point now = Clock::now();
    if (now >= deadline_) return Missing();
    for (int r = 0; r < rank_; ++r) {
      if (!others_[r].there && others_[r].retry <= now) Call(r);
    }
    std::vector<pollfd> polled = {{listening_.get(), POLLIN, 0}};
    for (const Attempt& attempt : attempts_) {
      const bool calls = attempt.to >= 0 && !attempt.is_greeted;
      polled.push_back({attempt.socket.get(), static_cast<int16_t>(calls ? POLLOUT : POLLIN), 0});
    }
    poll(polled.data(), polled.size(), static_cast<int>(kRetryAfter.count()));
    size_t index = 1;
    for (auto attempt = attempts_.begin(); attempt != attempts_.end(); ++index) {
      attempt = polled[index].revents == 0 || Go(*attempt) ? std::next(attempt)
                                                           : attempts_.erase(attempt);
    }
    if (polled[0].revents != 0) Accept();
  }
  return absl::OkStatus();
}

std::vector<Peer> Meeting::Take() {
  std::vector<Peer> peers;
  for (Other& other : others_) {
    other.peer.socket = other.socket.Release();
    peers.push_back(std::move(other.peer));
  }
  return peers;
}

}  // namespace

absl::StatusOr<std::vector<Peer>> Connect(int rank, int size, const Exchange& exchange,
                                          const std::string& interface, double timeout_seconds) {
  Meeting meeting(rank, size);
  RETURN_IF_ERROR(meeting.Introduce(exchange, interface));
  const absl::Status met = meeting.Meet(timeout_seconds);
  // Nobody goes on before all have met all, and if one has not, none does.
  ASSIGN_OR_RETURN(const std::vector<std::string> failures,
                   exchange("tcp/connected", std::string(met.message())));
  for (const std::string& failure : failures) {
    if (!failure.empty()) return absl::UnavailableError(failure);
  }
  return meeting.Take();
}

}  // namespace tessera::comm::tcp
