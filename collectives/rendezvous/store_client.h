// A rank's connection to the store that rank 0 runs (store_server.h).
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_STORE_CLIENT_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_STORE_CLIENT_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/rendezvous/framed_connection.h"
#include "collectives/rendezvous/socket.h"
#include "collectives/rendezvous/store.pb.h"

namespace tessera::comm {

struct StoreAddress {
  std::string host;
  int port = 0;
  std::string secret;
};

struct StoreClientOptions {
  int rank = 0;
  int size = 1;
  std::string job;
  // Asked before each attempt, until one succeeds. An error counts as an attempt that failed.
  std::function<absl::StatusOr<StoreAddress>(Deadline deadline)> find_store;
};

struct LostRank {
  int rank = 0;
  std::string why;
};

// Thread-safe: one thread may wait while another sets, or asks who is lost. Ending the connection
// without Leave tells the others that this rank is lost.
//
// Errors of all calls, besides those that they name: Unavailable if rank 0 is gone, or gives no
// answer.
class StoreClient {
 public:
  // Tries until it succeeds, or DeadlineExceeded, with what was wrong with the last attempt. At
  // once PermissionDenied if rank 0 has another secret, InvalidArgument for another number of
  // ranks, AlreadyExists if this rank is there already, FailedPrecondition for another version.
  static absl::StatusOr<std::unique_ptr<StoreClient>> Connect(const StoreClientOptions& options,
                                                              std::chrono::milliseconds timeout);
  ~StoreClient();
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;

  // "127.0.0.1:29500"
  const std::string& address() const { return address_; }

  // What is set stays until the store ends. Keys have up to kMaxKeyBytes, values kMaxValueBytes.
  absl::Status Set(absl::string_view key, absl::string_view value);

  // The value, as soon as the key has one. DeadlineExceeded names the key; Unavailable also if a
  // rank is lost before the value is there. With a timeout of 0 it does not wait, and lost ranks
  // are no obstacle.
  absl::StatusOr<std::string> Wait(absl::string_view key, std::chrono::milliseconds timeout);
  // The same for several keys; where the time is up or a rank is lost, `missing` has the keys that
  // have no value. It may be null.
  absl::StatusOr<std::vector<std::string>> WaitAll(const std::vector<std::string>& keys,
                                                   std::chrono::milliseconds timeout,
                                                   std::vector<std::string>* missing = nullptr);

  // Adds to the number that the key holds in decimal digits, 0 if it has no value, and returns the
  // sum.
  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta);

  // Ranks that ended without having left, in the order in which they did so; rank 0 is one of them
  // when the store itself is gone. Costs no more than a lock.
  std::vector<LostRank> LostRanks() const;

  // The last call: this rank is done, or cannot go on because of an error, which the others are
  // told.
  absl::Status Leave(const absl::Status& why);

 private:
  StoreClient(std::string address, std::unique_ptr<FramedConnection> connection,
              FileDescriptor wake);

  static absl::StatusOr<std::unique_ptr<StoreClient>> TryToConnect(
      const StoreClientOptions& options, Deadline deadline);

  // Sends a request, and waits for its answer. An answer that is an error is returned as one.
  absl::Status Call(StoreRequest* request, std::chrono::milliseconds timeout,
                    StoreResponse* response);
  absl::Status Send(const StoreRequest& request, Deadline deadline);
  void ReadAnswers();
  void TakeAnswer(StoreResponse response);
  void Break(const absl::Status& why);

  const std::string address_;
  const FileDescriptor wake_;

  // What comes is the reader's; what goes is under send_mutex_.
  const std::unique_ptr<FramedConnection> connection_;
  std::mutex send_mutex_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int64_t next_id_ = 2;                      // the hello was 1
  std::map<int64_t, StoreResponse*> calls_;  // without an answer yet; a caller's
  std::vector<LostRank> lost_;
  absl::Status broken_;  // why the connection is of no more use

  std::thread reader_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_STORE_CLIENT_H_
