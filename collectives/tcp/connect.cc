#include "collectives/tcp/connect.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/host_identity.h"
#include "collectives/net/acceptor.h"
#include "collectives/net/handshake.h"
#include "collectives/net/interfaces.h"
#include "collectives/net/proof.h"
#include "collectives/net/socket.h"
#include "core/status/status_macros.h"

namespace tessera::comm::tcp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kRetryAfter = std::chrono::milliseconds(50);

// A host as its ranks describe it to the others: HostIdentity, the addresses of its interfaces, and
// the rank's option for digests.
struct HostDescription {
  std::string identity;
  std::vector<std::string> addresses;
  std::string integrity;
};

std::string Serialize(const HostDescription& host) {
  return absl::StrCat(host.identity, "\n", absl::StrJoin(host.addresses, " "), "\n",
                      host.integrity);
}

HostDescription ParseHost(absl::string_view text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.resize(3);
  return {lines[0], absl::StrSplit(lines[1], ' ', absl::SkipEmpty()), lines[2]};
}

std::string DescribeIntegrity(const std::optional<Integrity>& integrity) {
  return integrity.has_value() ? absl::StrCat("--integrity=", IntegrityName(*integrity))
                               : "no --integrity";
}

// Returns an error if the ranks have different options for digests; the same one on all ranks.
absl::Status CompareIntegrity(const std::vector<HostDescription>& hosts) {
  for (size_t rank = 1; rank < hosts.size(); ++rank) {
    if (hosts[rank].integrity == hosts[0].integrity) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank 0 has ", absl::CHexEscape(hosts[0].integrity), ", and rank ", rank, " has ",
        absl::CHexEscape(hosts[rank].integrity), ": give all ranks the same"));
  }
  return absl::OkStatus();
}

// Returns the address at which this rank listens.
absl::StatusOr<SocketAddress> ChooseAddress(int rank, const std::vector<HostDescription>& hosts,
                                            const std::string& interface) {
  if (!interface.empty()) return AddressOfInterface(interface);
  for (size_t peer = 0; peer < hosts.size(); ++peer) {
    if (hosts[peer].identity == hosts[rank].identity) continue;
    absl::StatusOr<SocketAddress> address = AddressTowards(hosts[peer].addresses);
    if (address.ok()) return address;
    return absl::NotFoundError(absl::StrCat(address.status().message(), ", the addresses of rank ",
                                            peer, ": name an interface (--interface)"));
  }
  return SocketAddress::Loopback(0);
}

// Makes the connections of this rank. A rank connects to the ranks before it, and accepts
// connections from those after it.
class Connector {
 public:
  Connector(int rank, int size, const NetworkOptions& options)
      : rank_(rank), options_(options), token_(RandomSecret()), remotes_(size) {}

  // Collective. Listens, and exchanges the addresses of all ranks.
  absl::Status ExchangeAddresses(const Exchange& exchange);
  // Connects with all ranks.
  absl::Status ConnectAll();
  std::vector<Peer> TakePeers();

 private:
  // Another rank, or this one.
  struct Remote {
    Peer peer;
    SocketAddress address;
    std::string token;       // names its listening socket in proofs
    std::string last_error;  // of the last attempt to connect
    Clock::time_point retry_at;
    bool is_connected = false;
    bool is_on_this_host = false;
  };
  // A connection that this rank is making.
  struct Attempt {
    int to = 0;
    FileDescriptor socket;
    std::optional<ConnectorHandshake> handshake;  // once the connection is there
  };

  absl::Status Listen(const SocketAddress& local);
  // Sets the Remote of a rank from the text that it has sent.
  absl::Status ParseRemote(int rank, absl::string_view text);
  // Returns an error if a rank that connects to this one must not.
  absl::Status Admit(const RankClaim& claim) const;
  bool AreAllConnected() const;
  // Starts to connect to the ranks before this one to which no attempt runs.
  void StartAttempts();
  void SetConnected(int rank, FileDescriptor socket, const SessionKeys& keys);
  // Records that an attempt failed, and when to try again.
  void SetFailed(int rank, const absl::Status& why);
  // Waits until a connection can advance, or for kRetryAfter, and advances those that can.
  void WaitForEvents();
  // Continues an attempt as far as possible without waiting. Returns whether it has ended.
  bool Advance(Attempt& attempt);
  // Returns the error that names the ranks that are not connected.
  absl::Status MissingRanks() const;

  const int rank_;
  const NetworkOptions options_;
  const std::string token_;
  std::vector<Remote> remotes_;  // by rank
  SocketAddress local_;
  std::optional<Acceptor> acceptor_;
  std::list<Attempt> attempts_;
};

absl::Status Connector::Listen(const SocketAddress& local) {
  local_ = local;
  ASSIGN_OR_RETURN(FileDescriptor listener, ListenAt(local));
  ASSIGN_OR_RETURN(remotes_[rank_].address, AddressOf(listener));
  std::vector<FileDescriptor> listeners;
  listeners.push_back(std::move(listener));
  acceptor_.emplace(std::move(listeners), HandshakeKey{kTcpService, token_, options_.secret},
                    [this](const RankClaim& claim) { return Admit(claim); });
  return absl::OkStatus();
}

absl::Status Connector::ExchangeAddresses(const Exchange& exchange) {
  ASSIGN_OR_RETURN(const std::vector<std::string> host_texts,
                   exchange("tcp/host", Serialize({HostIdentity(), OwnAddresses(),
                                                   DescribeIntegrity(options_.integrity)})));
  std::vector<HostDescription> hosts;
  for (const std::string& text : host_texts) hosts.push_back(ParseHost(text));
  RETURN_IF_ERROR(CompareIntegrity(hosts));
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    remotes_[rank].is_on_this_host = hosts[rank].identity == hosts[rank_].identity;
  }
  const absl::StatusOr<SocketAddress> local = ChooseAddress(rank_, hosts, options_.interface);
  const absl::Status status = local.ok() ? Listen(*local) : local.status();
  const SocketAddress& own = remotes_[rank_].address;
  const std::string description = status.ok() ? absl::StrCat(own.host(), " ", own.port(), " ",
                                                             token_, " ", getpid(), " ", HostName())
                                              : absl::StrCat("error: ", status.message());
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, exchange("tcp/address", description));
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    RETURN_IF_ERROR(ParseRemote(static_cast<int>(rank), texts[rank]));
  }
  remotes_[rank_].is_connected = true;
  return absl::OkStatus();
}

absl::Status Connector::ParseRemote(int rank, absl::string_view text) {
  if (absl::ConsumePrefix(&text, "error: ")) {
    return absl::UnavailableError(absl::StrCat("rank ", rank, ": ", text));
  }
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  Remote& remote = remotes_[rank];
  int port = 0;
  if (words.size() != 5 || !absl::SimpleAtoi(words[1], &port) || port < 1 || port > 65535 ||
      !absl::SimpleAtoi(words[3], &remote.peer.process)) {
    return absl::InternalError(
        absl::StrCat("rank ", rank, " sent '", text, "', which is not an address"));
  }
  ASSIGN_OR_RETURN(remote.address, SocketAddress::Parse(words[0], port));
  remote.token = words[2];
  remote.peer.host = words[4];
  remote.peer.address = absl::StrCat(words[0], " port ", port);
  return absl::OkStatus();
}

absl::Status Connector::Admit(const RankClaim& claim) const {
  const int size = static_cast<int>(remotes_.size());
  if (claim.size != size || claim.rank <= rank_ || claim.rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank_, " of ", size,
                                                   " expects no connection from rank ", claim.rank,
                                                   " of ", claim.size));
  }
  return absl::OkStatus();  // a rank may connect again after a failed attempt
}

bool Connector::AreAllConnected() const {
  return std::all_of(remotes_.begin(), remotes_.end(),
                     [](const Remote& remote) { return remote.is_connected; });
}

void Connector::StartAttempts() {
  const Clock::time_point now = Clock::now();
  for (int rank = 0; rank < rank_; ++rank) {
    Remote& remote = remotes_[rank];
    if (remote.is_connected || remote.retry_at > now) continue;
    remote.retry_at = Clock::time_point::max();  // no retry while this attempt runs
    absl::StatusOr<FileDescriptor> socket = StartConnecting(remote.address, &local_);
    if (socket.ok()) {
      attempts_.push_back({rank, *std::move(socket), std::nullopt});
    } else {
      SetFailed(rank, socket.status());
    }
  }
}

void Connector::SetConnected(int rank, FileDescriptor socket, const SessionKeys& keys) {
  Remote& remote = remotes_[rank];
  const Integrity by_default = remote.is_on_this_host ? Integrity::kNone : Integrity::kControl;
  remote.peer.socket = std::move(socket);
  remote.peer.security = {options_.integrity.value_or(by_default), keys};
  remote.is_connected = true;
}

void Connector::SetFailed(int rank, const absl::Status& why) {
  remotes_[rank].last_error = std::string(why.message());
  remotes_[rank].retry_at = Clock::now() + kRetryAfter;
}

bool Connector::Advance(Attempt& attempt) {
  const Remote& remote = remotes_[attempt.to];
  if (!attempt.handshake.has_value()) {
    const absl::Status status = ConnectionStatus(attempt.socket);
    if (!status.ok()) {
      SetFailed(attempt.to, status);
      return true;
    }
    attempt.handshake.emplace(HandshakeKey{kTcpService, remote.token, options_.secret},
                              RankClaim{rank_, static_cast<int>(remotes_.size())},
                              remote.address.text());
  }
  const absl::StatusOr<bool> is_proved = attempt.handshake->Advance(attempt.socket);
  if (!is_proved.ok()) {
    SetFailed(attempt.to, is_proved.status());
    return true;
  }
  if (*is_proved) SetConnected(attempt.to, std::move(attempt.socket), attempt.handshake->keys());
  return *is_proved;
}

void Connector::WaitForEvents() {
  std::vector<pollfd> events;
  acceptor_->AppendEvents(&events);
  const size_t acceptor_events = events.size();
  for (const Attempt& attempt : attempts_) {
    const bool is_connecting = !attempt.handshake.has_value();
    events.push_back(
        {attempt.socket.get(), static_cast<int16_t>(is_connecting ? POLLOUT : POLLIN), 0});
  }
  poll(events.data(), events.size(), static_cast<int>(kRetryAfter.count()));
  size_t index = acceptor_events;
  for (auto attempt = attempts_.begin(); attempt != attempts_.end(); ++index) {
    const bool has_ended = events[index].revents != 0 && Advance(*attempt);
    attempt = has_ended ? attempts_.erase(attempt) : std::next(attempt);
  }
  for (Acceptor::Connection& connection :
       acceptor_->Advance(absl::MakeConstSpan(events).subspan(0, acceptor_events))) {
    SetConnected(connection.rank, std::move(connection.socket), connection.keys);
  }
}

absl::Status Connector::ConnectAll() {
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(
                         std::chrono::duration<double>(options_.timeout_seconds));
  while (!AreAllConnected()) {
    if (Clock::now() >= deadline) return MissingRanks();
    StartAttempts();
    WaitForEvents();
  }
  return absl::OkStatus();
}

absl::Status Connector::MissingRanks() const {
  std::vector<std::string> missing;
  for (size_t rank = 0; rank < remotes_.size(); ++rank) {
    const Remote& remote = remotes_[rank];
    if (remote.is_connected) continue;
    missing.push_back(absl::StrCat("rank ", rank, " (process ", remote.peer.process, " on ",
                                   remote.peer.host, ", ", remote.peer.address,
                                   remote.last_error.empty() ? "" : ": ", remote.last_error, ")"));
  }
  return absl::UnavailableError(
      absl::StrCat("rank ", rank_, " has no connection with ", absl::StrJoin(missing, ", ")));
}

std::vector<Peer> Connector::TakePeers() {
  std::vector<Peer> peers;
  for (Remote& remote : remotes_) peers.push_back(std::move(remote.peer));
  return peers;
}

}  // namespace

absl::StatusOr<std::vector<Peer>> Connect(int rank, int size, const Exchange& exchange,
                                          const NetworkOptions& options) {
  Connector connector(rank, size, options);
  RETURN_IF_ERROR(connector.ExchangeAddresses(exchange));
  const absl::Status connected = connector.ConnectAll();
  // No rank continues before all ranks have all connections; if one lacks any, all fail.
  ASSIGN_OR_RETURN(const std::vector<std::string> failures,
                   exchange("tcp/connected", std::string(connected.message())));
  for (const std::string& failure : failures) {
    if (!failure.empty()) return absl::UnavailableError(failure);
  }
  return connector.TakePeers();
}

}  // namespace tessera::comm::tcp
