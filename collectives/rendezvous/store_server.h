// The job's key-value store, which rank 0 runs for all ranks, itself included, and by which ranks
// find each other, tell each other small things and notice when one of them is gone.
//
// A connection that does not prove that it knows the secret is dropped, and costs nobody anything:
// neither memory (limits.h) nor a place that a rank would need.
//
// A rank that ends its connection without a word is lost, and so is one that leaves with an error.
// Its loss is told to all, ends every wait that has not got its values, and cannot be made good:
// the job has to be started again.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "collectives/rendezvous/socket.h"

namespace tessera::comm {

struct StoreServerOptions {
  int size = 1;  // ranks of the job
  std::string job;
  std::string secret;
  FileDescriptor listener;
  // If it is open, processes of the same user are told port and secret there.
  FileDescriptor local_meeting;
};

// Runs on a thread of its own from Start until it is destroyed, which closes all connections.
// Thread-safe.
class StoreServer {
 public:
  static absl::StatusOr<std::unique_ptr<StoreServer>> Start(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  int port() const { return port_; }

  // Until no rank is connected; false if the time was up before.
  bool WaitUntilAllLeft(std::chrono::milliseconds timeout);

 private:
  class Loop;

  StoreServer(int port, std::unique_ptr<Loop> loop);

  const int port_;
  const std::unique_ptr<Loop> loop_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_
