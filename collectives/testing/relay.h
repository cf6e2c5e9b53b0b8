// A relay between ranks, for tests: an attacker on the way, who changes what passes.
#ifndef TESSERA_COLLECTIVES_TESTING_RELAY_H_
#define TESSERA_COLLECTIVES_TESTING_RELAY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/exchange.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

// A port of the relay. Connections that it accepts go on as those that `connect` makes, which runs
// on the relay's thread.
struct RelayPort {
  FileDescriptor listener;
  std::function<absl::StatusOr<FileDescriptor>()> connect;
};

// Forwards connections in both directions, on a thread of its own. It flips the lowest bit of the
// last byte of each occurrence of a text.
//
// Thread safety: thread-safe.
class Relay {
 public:
  Relay(std::vector<RelayPort> ports, std::string text);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // Returns how many occurrences were changed.
  int64_t changes() const { return changes_; }

 private:
  // The bytes that one end of a connection sends to the other.
  struct Flow {
    std::string last;    // the last bytes, in which an occurrence may begin
    std::string queued;  // not forwarded yet
    bool has_ended = false;
  };
  struct Connection {
    FileDescriptor ends[2];
    Flow flows[2];  // by the end that sends
  };

  void Run();
  void Accept(const RelayPort& port);
  // Moves bytes of a connection on. Returns false when it has ended.
  bool Advance(Connection& connection);
  void Receive(Connection& connection, int from);
  void Forward(Connection& connection, int from);
  void Change(Flow& flow, std::string* bytes);

  const std::vector<RelayPort> ports_;
  const std::string text_;
  const FileDescriptor wake_;  // an eventfd
  std::list<Connection> connections_;
  std::atomic<int64_t> changes_{0};
  std::thread thread_;
};

// Returns an exchange for collectives/tcp in which this rank, `rank`, learns addresses of relays
// instead of those of the ranks on other hosts before it (host_of[r] is the host of rank r), so
// that it connects through them. All listen at loopback. The relays are appended to `relays`.
Exchange ThroughRelays(const Exchange& exchange, int rank, const std::vector<int>& host_of,
                       const std::string& text, std::list<Relay>* relays);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_RELAY_H_
