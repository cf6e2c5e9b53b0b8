// A rank's connection to the store that rank 0 runs (store_server.h).
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_STORE_CLIENT_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_STORE_CLIENT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/net/handshake.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/framed_connection.h"
#include "collectives/rendezvous/local_discovery.h"
#include "collectives/rendezvous/store.pb.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

struct StoreClientOptions {
  int rank = 0;
  int size = 1;
  std::string job;
  // Called before each attempt to connect. An error counts as an attempt that failed.
  std::function<absl::StatusOr<StoreAddress>(Deadline deadline)> find_store;
};

// A rank's connection to the store. If it ends without Leave, the others see this rank as lost. Any
// call can return Unavailable if rank 0 is gone or sends no answer; then all later calls do too.
//
// Thread safety: one thread at a time.
class StoreClient {
 public:
  // Tries to connect until it succeeds or the time has passed: DeadlineExceeded, with the error of
  // the last attempt. Returns at once with PermissionDenied if rank 0 has another secret,
  // InvalidArgument for another number of ranks, AlreadyExists if this rank is connected already,
  // FailedPrecondition for another version. If a program of this host listens there that does not
  // prove that it is rank 0, the error names its process and user.
  static absl::StatusOr<std::unique_ptr<StoreClient>> Connect(const StoreClientOptions& options,
                                                              std::chrono::milliseconds timeout);
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  // "127.0.0.1:29500"
  const std::string& address() const { return address_; }
  // The job's secret.
  const std::string& secret() const { return secret_; }

  // Sets the value of a key, which stays until the store ends. Keys have up to kMaxKeyBytes, values
  // kMaxValueBytes.
  absl::Status Set(absl::string_view key, absl::string_view value);

  // Waits until the key has a value, and returns it. DeadlineExceeded names the key; Unavailable
  // also if a rank is lost before the value is there. With a timeout of 0 it does not wait, and
  // does not fail because of lost ranks.
  absl::StatusOr<std::string> Wait(absl::string_view key, std::chrono::milliseconds timeout);
  // The same for several keys. After an error `missing`, which may be null, has the keys without a
  // value.
  absl::StatusOr<std::vector<std::string>> WaitAll(const std::vector<std::string>& keys,
                                                   std::chrono::milliseconds timeout,
                                                   std::vector<std::string>* missing = nullptr);

  // Must be the last call: with OK if this rank is done, otherwise with an error, which is sent to
  // the others. After an error it waits at most 0.3 s for rank 0's answer.
  absl::Status Leave(const absl::Status& why);

 private:
  StoreClient(std::string address, std::string secret, FileDescriptor socket,
              const SessionKeys& keys)
      : address_(std::move(address)),
        secret_(std::move(secret)),
        connection_(std::move(socket), keys) {}

  // Sets *listener to the address at which a program has accepted the connection.
  static absl::StatusOr<std::unique_ptr<StoreClient>> TryToConnect(
      const StoreClientOptions& options, Deadline deadline, SocketAddress* listener);

  // Sends a request and waits for its answer. Returns the error that the answer has.
  absl::Status Call(const StoreRequest& request, std::chrono::milliseconds timeout,
                    StoreResponse* response);

  const std::string address_;
  const std::string secret_;
  FramedConnection connection_;
  absl::Status broken_;  // why the connection cannot be used any more
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_STORE_CLIENT_H_
