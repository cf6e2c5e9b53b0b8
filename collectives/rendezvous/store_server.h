// The job's key-value store, which rank 0 runs for all ranks, itself included. Ranks use it to find
// each other, exchange small values and notice when one of them is gone.
//
// Only ranks that prove that they know the secret are admitted (collectives/net/acceptor.h). Once
// all ranks have been, the store no longer listens: a rank connects once.
//
// A rank is lost if its connection ends before it has left, or if it leaves with an error. Then
// every present and later wait for missing values ends with that error. A lost rank cannot come
// back: the job has to be started again.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/net/acceptor.h"
#include "collectives/rendezvous/framed_connection.h"
#include "collectives/rendezvous/key_value_store.h"
#include "collectives/rendezvous/store.pb.h"
#include "core/posix/file_descriptor.h"
#include "core/sync/mutex.h"

namespace tessera::comm {

struct StoreServerOptions {
  int size = 1;  // ranks of the job
  std::string job;
  std::string secret;
  std::vector<FileDescriptor> listeners;  // at least one; all have the same port
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

  // Waits until no rank is connected any more; false if that takes longer than `timeout`. A rank
  // that has died, or whose host has, counts as not connected.
  bool WaitUntilAllLeft(std::chrono::milliseconds timeout);

 private:
  enum class RankState { kAbsent, kConnected, kDone, kLost };

  StoreServer(StoreServerOptions options, int port, FileDescriptor wake);

  // All that follows runs on the thread of the store.
  void Run();
  // Waits until a connection is ready or a wait expires, and handles what has arrived.
  void WaitForEvents();
  // Marks a rank as connected; an error if it may not connect.
  absl::Status Admit(const RankClaim& claim);
  // Closes the listening sockets once every rank has connected.
  void StopListeningIfComplete();
  // Receives and handles a rank's requests. Drops the rank if its connection has ended.
  void ReadFrom(int rank);
  // Drops a rank because of a message that is malformed, or was changed on the way.
  void DropForMessage(int rank, const absl::Status& why);
  void HandleRequest(int rank, const StoreRequest& request);
  void SetState(int rank, RankState state);
  // Marks a rank as lost, and ends the waits of the others. Does nothing if it has left.
  void LoseRank(int rank, const std::string& why);
  // Closes a rank's connection, and marks it as lost unless it has left.
  void Drop(int rank, const std::string& why);
  // Queues answers; FlushAll sends them.
  void QueueAnswers(const std::vector<KeyValueStore::Answer>& answers);
  void FlushAll();

  const int size_;
  const int port_;
  const std::string secret_;
  FileDescriptor local_discovery_;  // closed once all ranks have joined
  const FileDescriptor wake_;
  std::atomic<bool> stopping_{false};

  Acceptor acceptor_;
  std::vector<std::unique_ptr<FramedConnection>> connections_;  // by rank; null: not connected
  std::vector<RankState> states_;                               // by rank
  KeyValueStore store_;

  Mutex mutex_;
  ConditionVariable changed_;
  int connected_ranks_ ABSL_GUARDED_BY(mutex_) = 0;  // ranks that have not left

  std::thread thread_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_STORE_SERVER_H_
