// The store's keys and values, and who waits for them. It knows nothing of sockets or threads: a
// request goes in, answers to this and earlier requests come out.
//
// Thread safety: one thread at a time.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_KEY_VALUE_STORE_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_KEY_VALUE_STORE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/rendezvous/socket.h"
#include "collectives/rendezvous/store.pb.h"

namespace tessera::comm {

class KeyValueStore {
 public:
  struct Answer {
    int rank = 0;
    StoreResponse response;
  };

  // Of set, wait and add. What is to be said now, to this and other ranks, is appended to
  // `answers`.
  void Handle(int rank, const StoreRequest& request, Deadline now, std::vector<Answer>* answers);

  // Tells those whose time is up.
  void Expire(Deadline now, std::vector<Answer>* answers);
  // When Expire has something to do next; Deadline::max() if nobody waits.
  Deadline next_expiry() const;

  // `rank` is gone for a reason that is an error: nobody waits any more, now or later. What is
  // there can still be had.
  void Doom(const absl::Status& why, std::vector<Answer>* answers);
  // Nothing is to be said to this rank any more.
  void Forget(int rank);

 private:
  struct Wait {
    int rank = 0;
    int64_t id = 0;
    std::vector<std::string> keys;
    absl::flat_hash_set<std::string> missing;
    Deadline deadline;
  };
  using WaitId = int64_t;

  absl::Status Set(const std::string& key, std::string value, std::vector<Answer>* answers);
  absl::StatusOr<int64_t> Add(const AddRequest& request, std::vector<Answer>* answers);
  void StartWait(int rank, const StoreRequest& request, Deadline now, std::vector<Answer>* answers);
  absl::Status CheckWait(int rank, const WaitRequest& request) const;
  StoreResponse ValuesFor(const Wait& wait) const;
  // Answers with the values, or with an error that says what is missing.
  void Finish(WaitId id, const absl::Status& status, std::vector<Answer>* answers);

  absl::flat_hash_map<std::string, std::string> values_;
  int64_t bytes_ = 0;  // of keys and values
  absl::Status doom_;

  std::map<WaitId, Wait> waits_;
  WaitId next_wait_ = 0;
  absl::flat_hash_map<std::string, std::set<WaitId>> waits_for_;  // by a key that is missing
};

// An answer that says `status`.
StoreResponse ResponseOf(int64_t id, const absl::Status& status);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_KEY_VALUE_STORE_H_
