// The store's keys and values, and the ranks' waits for them. It uses neither sockets nor threads:
// a call takes a request, and returns answers to this and earlier requests.
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
#include "collectives/net/deadline.h"
#include "collectives/rendezvous/store.pb.h"

namespace tessera::comm {

class KeyValueStore {
 public:
  struct Answer {
    int rank = 0;
    StoreResponse response;
  };

  // Handles a set or a wait. Appends the answers that can be sent now, to this and other ranks,
  // to `answers`.
  void Handle(int rank, const StoreRequest& request, Deadline now, std::vector<Answer>* answers);

  // Answers the waits whose time has passed.
  void Expire(Deadline now, std::vector<Answer>* answers);
  // When the next wait expires; Deadline::max() if there is none.
  Deadline next_expiry() const;

  // Answers all present and later waits whose values are missing with the error `why`.
  void FailWaits(const absl::Status& why, std::vector<Answer>* answers);
  // Removes the waits of a rank that is gone.
  void RemoveWaitsOf(int rank);

 private:
  struct Wait {
    int rank = 0;
    int64_t id = 0;
    std::vector<std::string> keys;
    int64_t bytes = 0;  // of memory, approximately
    absl::flat_hash_set<std::string> missing;
    Deadline deadline;
  };
  using WaitId = int64_t;

  absl::Status Set(const std::string& key, std::string value, std::vector<Answer>* answers);
  void StartWait(int rank, const StoreRequest& request, Deadline now, std::vector<Answer>* answers);
  absl::Status CheckWait(int rank, const WaitRequest& request) const;
  StoreResponse ValuesFor(const Wait& wait) const;
  // Answers with the values, or with `status` and the keys that have no value.
  void Finish(WaitId id, const absl::Status& status, std::vector<Answer>* answers);

  absl::flat_hash_map<std::string, std::string> values_;
  int64_t bytes_ = 0;     // of keys and values
  absl::Status failure_;  // of all waits

  std::map<WaitId, Wait> waits_;
  WaitId next_wait_ = 0;
  absl::flat_hash_map<std::string, std::set<WaitId>> waits_for_;  // by missing key
};

// An answer with `status`.
StoreResponse ResponseOf(int64_t id, const absl::Status& status);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_KEY_VALUE_STORE_H_
