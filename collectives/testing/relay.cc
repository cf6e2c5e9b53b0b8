#include "collectives/testing/relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "collectives/net/socket.h"
#include "core/status/check.h"

namespace tessera::comm {
namespace {

constexpr size_t kReceiveBytes = 64 << 10;

}  // namespace

Relay::Relay(std::vector<RelayPort> ports, std::string text)
    : ports_(std::move(ports)),
      text_(std::move(text)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { Run(); }) {}

Relay::~Relay() {
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

void Relay::Run() {
  while (true) {
    std::vector<pollfd> events = {{wake_.get(), POLLIN, 0}};
    for (const RelayPort& port : ports_) events.push_back({port.listener.get(), POLLIN, 0});
    for (const Connection& connection : connections_) {
      for (const int from : {0, 1}) {
        const Flow& flow = connection.flows[from];
        const bool reads = flow.queued.empty() && !flow.has_ended;
        events.push_back({reads ? connection.ends[from].get() : -1, POLLIN, 0});
        events.push_back({flow.queued.empty() ? -1 : connection.ends[1 - from].get(), POLLOUT, 0});
      }
    }
    poll(events.data(), events.size(), /*timeout=*/-1);
    if (events[0].revents != 0) return;
    connections_.remove_if([this](Connection& connection) { return !Advance(connection); });
    for (size_t i = 0; i < ports_.size(); ++i) {
      if (events[1 + i].revents != 0) Accept(ports_[i]);
    }
  }
}

void Relay::Accept(const RelayPort& port) {
  absl::StatusOr<FileDescriptor> near = AcceptFrom(port.listener);
  if (!near.ok() || !near->is_open()) return;
  absl::StatusOr<FileDescriptor> far = port.connect();
  if (!far.ok()) return;
  Connection& connection = connections_.emplace_back();
  connection.ends[0] = *std::move(near);
  connection.ends[1] = *std::move(far);
}

bool Relay::Advance(Connection& connection) {
  bool has_ended = true;
  for (const int from : {0, 1}) {
    Receive(connection, from);
    Forward(connection, from);
    const Flow& flow = connection.flows[from];
    has_ended = has_ended && flow.has_ended && flow.queued.empty();
  }
  return !has_ended;
}

void Relay::Receive(Connection& connection, int from) {
  Flow& flow = connection.flows[from];
  if (!flow.queued.empty() || flow.has_ended) return;
  std::string bytes(kReceiveBytes, '\0');
  const ssize_t got = recv(connection.ends[from].get(), bytes.data(), bytes.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  flow.has_ended = got <= 0;
  if (flow.has_ended) {
    shutdown(connection.ends[1 - from].get(), SHUT_WR);
    return;
  }
  bytes.resize(got);
  Change(flow, &bytes);
  flow.queued = std::move(bytes);
}

void Relay::Forward(Connection& connection, int from) {
  Flow& flow = connection.flows[from];
  if (flow.queued.empty()) return;
  const ssize_t sent =
      send(connection.ends[1 - from].get(), flow.queued.data(), flow.queued.size(), MSG_NOSIGNAL);
  if (sent >= 0) {
    flow.queued.erase(0, sent);
  } else if (errno != EAGAIN && errno != EINTR) {
    // The other end is gone. What it sent before goes on.
    flow.queued.clear();
    flow.has_ended = true;
  }
}

// An occurrence may begin in bytes that were forwarded before, but its last byte is in `bytes`.
void Relay::Change(Flow& flow, std::string* bytes) {
  const std::string all = flow.last + *bytes;
  for (size_t at = all.find(text_); at != std::string::npos; at = all.find(text_, at + 1)) {
    char& last = (*bytes)[at + text_.size() - 1 - flow.last.size()];
    last = static_cast<char>(last ^ 1);
    ++changes_;
  }
  flow.last = all.substr(all.size() - std::min(all.size(), text_.size() - 1));
}

Exchange ThroughRelays(const Exchange& exchange, int rank, const std::vector<int>& host_of,
                       const std::string& text, std::list<Relay>* relays) {
  return [=](absl::string_view key,
             absl::string_view mine) -> absl::StatusOr<std::vector<std::string>> {
    absl::StatusOr<std::vector<std::string>> texts = exchange(key, mine);
    if (key != "tcp/address" || !texts.ok()) return texts;
    for (int peer = 0; peer < rank; ++peer) {
      if (host_of[peer] == host_of[rank]) continue;
      std::vector<std::string> words = absl::StrSplit((*texts)[peer], ' ');
      int port = 0;
      TESSERA_CHECK(words.size() == 5 && absl::SimpleAtoi(words[1], &port)) << (*texts)[peer];
      std::vector<RelayPort> ports;
      ports.push_back({*ListenOn(Reach::kLoopback, 0), [port] {
                         return ConnectTo(
                             "127.0.0.1", port,
                             std::chrono::steady_clock::now() + std::chrono::seconds(10));
                       }});
      words[1] = absl::StrCat(*PortOf(ports[0].listener));
      relays->emplace_back(std::move(ports), text);
      (*texts)[peer] = absl::StrJoin(words, " ");
    }
    return texts;
  };
}

}  // namespace tessera::comm
