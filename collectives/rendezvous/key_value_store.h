// The store's keys and values, and the ranks' waits for them. It uses neither sockets nor threads:
// a call takes a request, and returns answers to this and earlier requests.
//
// Thread safety: one thread at a time.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_KEY_VALUE_STORE_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_KEY_VALUE_STORE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "collectives/net/socket.h"
#include "collectives/rendezvous/store.pb.h"

namespace tessera::comm {

class KeyValueStore {
 public:
  struct Answer {
    int rank = 0;
    StoreResponse response;
  };

  // Handles a set or a wait. Appends the answers that can be sent now, to this and other ranks,
  // to `answers`. A rank waits for one request at a time: FailedPrecondition for a second.
  void Handle(int rank, const StoreRequest& request, Deadline now, std::vector<Answer>* answers);

  // Answers the waits whose time has passed.
  void Expire(Deadline now, std::vector<Answer>* answers);
  // When the next wait expires; Deadline::max() if there is none.
  Deadline next_expiry() const;

  // Answers all present and later waits whose values are missing with the error `why`.
  void FailWaits(const absl::Status& why, std::vector<Answer>* answers);
  // Removes the wait, if there is one, of a rank that is gone.
  void RemoveWaitOf(int rank) { waits_.erase(rank); }

 private:
  struct Wait {
    std::vector<std::string> keys;
    size_t present = 0;  // the number of leading keys that are known to have values
    Deadline deadline;
  };

  // Sets a value, and answers the waits of which it was the last value missing.
  absl::Status Set(const std::string& key, const std::string& value, std::vector<Answer>* answers);
  // Answers a wait at once if its values are there or cannot come, else stores it.
  void StartWait(int rank, const WaitRequest& request, Deadline now, std::vector<Answer>* answers);
  absl::Status CheckWait(int rank, const WaitRequest& request) const;
  // Updates `present`. Returns whether all keys of the wait have values now.
  bool Advance(Wait& wait) const;
  // Returns the answer to a wait whose keys all have values.
  StoreResponse ValuesOf(const Wait& wait) const;
  // Returns an answer with an error, and the keys that have no value.
  StoreResponse ErrorOf(const Wait& wait, const absl::Status& status) const;

  absl::flat_hash_map<std::string, std::string> values_;  // only added to
  int64_t bytes_ = 0;                                     // of keys and values
  absl::Status failure_;                                  // of all waits
  std::map<int, Wait> waits_;                             // by rank
};

// ResourceExhausted if a value is longer than kMaxValueBytes.
absl::Status CheckValue(absl::string_view key, absl::string_view value);

// Returns an answer with `status`.
StoreResponse ResponseOf(const absl::Status& status);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_KEY_VALUE_STORE_H_
