// The job's key-value store, which rank 0 runs for all ranks, itself included. Ranks use it to find
// each other, exchange small values and notice when one of them is gone.
//
// Only ranks that prove that they know the secret are admitted (collectives/net/acceptor.h).
//
// A rank is lost if its connection ends before it has left, or if it leaves with an error. Then
// every present and later wait for missing values ends with that error. A lost rank cannot come
// back: the job has to be started again.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

struct StoreServerOptions {
  int size = 1;  // ranks of the job
  std::string job;
  std::string secret;
  FileDescriptor listener;
  // If it is open, processes of the same user receive port and secret from it (local_discovery.h).
  FileDescriptor local_discovery;
};

// Runs on a thread of its own from Start until it is destroyed, which closes all connections.
//
// Thread safety: thread-safe.
class StoreServer {
 public:
  static absl::StatusOr<std::unique_ptr<StoreServer>> Start(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return port_; }

  // Waits until no rank is connected any more; false if that takes longer than `timeout`.
  bool WaitUntilAllLeft(std::chrono::milliseconds timeout);
  // The same, for as long as it takes. A rank that has died, or whose host has, counts as not
  // connected.
  void WaitUntilAllLeft();

 private:
  class Loop;

  StoreServer(int port, std::unique_ptr<Loop> loop);

  const int port_;
  const std::unique_ptr<Loop> loop_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_
