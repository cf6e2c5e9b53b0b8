#include "collectives/rendezvous/rendezvous.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "collectives/net/interfaces.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/limits.h"
#include "collectives/rendezvous/local_discovery.h"
#include "core/status/status_macros.h"

namespace tessera::comm {
namespace {

using std::chrono::milliseconds;

// How long rank 0's store stays up after an error, so that the others receive it.
constexpr milliseconds kErrorDelivery{300};
constexpr milliseconds kLauncherCloses{2000};
constexpr size_t kMaxRanksNamed = 16;

using Listeners = std::vector<FileDescriptor>;

Listeners OneListener(FileDescriptor listener) {
  Listeners listeners;
  listeners.push_back(std::move(listener));
  return listeners;
}

// Returns the addresses of rank 0's host, in digits, at which it listens if it may use only one
// interface; none if there is no such interface, which all ranks report when they connect.
std::vector<std::string> AddressesToListenAt(const std::string& interface,
                                             const std::string& master_host) {
  const absl::StatusOr<SocketAddress> address = AddressOfInterface(interface);
  if (!address.ok()) return {};
  std::vector<std::string> hosts = {address->host()};
  const auto add = [&hosts](const std::string& host) {
    if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
  };
  add("127.0.0.1");
  // Other ranks connect to this name. On its own host it may be another loopback address, as
  // 127.0.1.1 is on Debian.
  for (const SocketAddress& resolved :
       ResolveHost(master_host, 0).value_or(std::vector<SocketAddress>())) {
    if (IsOfThisHost(resolved.host())) add(resolved.host());
  }
  return hosts;
}

absl::StatusOr<Listeners> ListenAtPort(const RankEnvironment& environment,
                                       const std::string& interface, int port) {
  std::vector<std::string> hosts;
  if (!environment.one_host && !interface.empty()) {
    hosts = AddressesToListenAt(interface, environment.master_host);
  }
  if (hosts.empty()) {
    ASSIGN_OR_RETURN(FileDescriptor listener,
                     ListenOn(environment.one_host ? Reach::kLoopback : Reach::kAnyHost, port));
    return OneListener(std::move(listener));
  }
  Listeners listeners;
  for (const std::string& host : hosts) {
    ASSIGN_OR_RETURN(const SocketAddress address, SocketAddress::Parse(host, port));
    ASSIGN_OR_RETURN(FileDescriptor listener, ListenAt(address));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

// Returns rank 0's listening sockets. Under tools/launch the port is bound already. If a program
// between the launcher and this process has closed the descriptor, the port is free as soon as the
// launcher has closed its own.
absl::StatusOr<Listeners> Listen(const RankEnvironment& environment, const std::string& interface) {
  if (environment.listen_fd >= 0) {
    absl::StatusOr<FileDescriptor> listener = AdoptListener(environment.listen_fd);
    if (listener.ok()) return OneListener(*std::move(listener));
    if (!absl::IsNotFound(listener.status())) return listener.status();
  }
  const auto listen = [&](int port) { return ListenAtPort(environment, interface, port); };
  absl::StatusOr<Listeners> listeners = listen(environment.master_port);
  const auto deadline = std::chrono::steady_clock::now() + kLauncherCloses;
  while (environment.listen_fd >= 0 && absl::IsAlreadyExists(listeners.status()) &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
    listeners = listen(environment.master_port);
  }
  if (!absl::IsAlreadyExists(listeners.status())) return listeners;
  if (environment.discovers_locally) return listen(0);
  return absl::AlreadyExistsError(
      absl::StrCat("rank 0 cannot listen: ", listeners.status().message(),
                   " by another program; choose another port by --rendezvous=HOST:PORT or "
                   "MASTER_PORT, on every rank"));
}

absl::StatusOr<std::unique_ptr<StoreServer>> StartServer(const RankEnvironment& environment,
                                                         const std::string& interface,
                                                         const std::string& secret) {
  StoreServerOptions options;
  options.size = environment.size;
  options.job = environment.job;
  options.secret = secret;
  if (environment.discovers_locally) {
    ASSIGN_OR_RETURN(options.local_discovery, OpenLocalDiscovery(environment.job));
  }
  ASSIGN_OR_RETURN(options.listeners, Listen(environment, interface));
  return StoreServer::Start(std::move(options));
}

}  // namespace

std::string FormatRanks(absl::Span<const int> ranks) {
  if (ranks.size() == 1) return absl::StrCat("rank ", ranks.front());
  if (ranks.size() > kMaxRanksNamed) {
    return absl::StrCat("ranks ", absl::StrJoin(ranks.subspan(0, kMaxRanksNamed), ", "), " and ",
                        ranks.size() - kMaxRanksNamed, " more");
  }
  if (ranks.empty()) return "no rank";
  return absl::StrCat("ranks ", absl::StrJoin(ranks.subspan(0, ranks.size() - 1), ", "), " and ",
                      ranks.back());
}

absl::StatusOr<std::unique_ptr<Rendezvous>> Rendezvous::Join(const RankEnvironment& environment,
                                                             milliseconds timeout,
                                                             const std::string& interface) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Rendezvous> rendezvous(new Rendezvous(environment.rank));
  StoreAddress address = {environment.master_host, environment.master_port, environment.secret};
  if (environment.rank == 0) {
    if (environment.one_host && address.secret.empty()) address.secret = RandomSecret();
    ASSIGN_OR_RETURN(rendezvous->server_, StartServer(environment, interface, address.secret));
    address.host = "127.0.0.1";
    address.port = rendezvous->server_->port();
  }
  StoreClientOptions options;
  options.rank = environment.rank;
  options.size = environment.size;
  options.job = environment.job;
  options.find_store = [&](Deadline deadline) -> absl::StatusOr<StoreAddress> {
    if (!environment.discovers_locally || environment.rank == 0) return address;
    return DiscoverRankZero(environment.job, deadline);
  };
  ASSIGN_OR_RETURN(rendezvous->client_, StoreClient::Connect(options, timeout));
  const std::string where = environment.one_host
                                ? rendezvous->client_->address()
                                : FormatAddress(environment.master_host, environment.master_port);
  std::vector<int> all(environment.size);
  std::iota(all.begin(), all.end(), 0);
  const milliseconds remaining =
      timeout - std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - start);
  const absl::Status status =
      rendezvous
          ->Exchange("rank", "", all, std::max(remaining, milliseconds(1)),
                     absl::StrCat(" of ", environment.size, " did not join at ", where, " within ",
                                  FormatTimeout(timeout)))
          .status();
  if (!status.ok()) {
    (void)rendezvous->Leave(status);
    return status;
  }
  return rendezvous;
}

absl::StatusOr<std::vector<std::string>> Rendezvous::Exchange(absl::string_view key,
                                                              absl::string_view mine,
                                                              const std::vector<int>& ranks,
                                                              milliseconds timeout,
                                                              absl::string_view problem) {
  RETURN_IF_ERROR(client_->Set(absl::StrCat(key, "/", rank_), mine));
  std::vector<std::string> keys, missing;
  for (int rank : ranks) keys.push_back(absl::StrCat(key, "/", rank));
  absl::StatusOr<std::vector<std::string>> values = client_->WaitAll(keys, timeout, &missing);
  if (!absl::IsDeadlineExceeded(values.status())) return values;
  const absl::flat_hash_set<std::string> without_value(missing.begin(), missing.end());
  std::vector<int> late;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (without_value.contains(keys[i])) late.push_back(ranks[i]);
  }
  return absl::DeadlineExceededError(absl::StrCat(FormatRanks(late), problem));
}

absl::Status Rendezvous::Leave(const absl::Status& why) {
  RETURN_IF_ERROR(client_->Leave(why));
  if (server_ != nullptr) (void)server_->WaitUntilAllLeft(why.ok() ? kMaxTimeout : kErrorDelivery);
  return absl::OkStatus();
}

}  // namespace tessera::comm
