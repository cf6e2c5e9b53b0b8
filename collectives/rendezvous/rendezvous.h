// How the ranks of a job come together and part again: rank 0 runs the store, each rank connects to
// it, says who it is, and waits until all have come.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_RENDEZVOUS_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_RENDEZVOUS_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/rendezvous/environment.h"
#include "collectives/rendezvous/store.pb.h"
#include "collectives/rendezvous/store_client.h"
#include "collectives/rendezvous/store_server.h"

namespace tessera::comm {

inline constexpr std::chrono::seconds kRendezvousTimeout{60};

// Thread-safe, but for Leave and the destructor.
class Rendezvous {
 public:
  // Returns when all ranks have come. DeadlineExceeded names those that did not:
  //
  //   ranks 2 and 3 of 4 did not come to 10.0.0.1:29500 within 60 s
  //
  // Unavailable if a rank that had come is lost meanwhile; AlreadyExists if rank 0's port is in use
  // and none but that will do; other errors as in StoreClient::Connect.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Join(
      const RankEnvironment& environment, std::chrono::milliseconds timeout = kRendezvousTimeout);

  // Without Leave, this rank is lost to the others.
  ~Rendezvous() = default;

  // By rank.
  const std::vector<RankInfo>& ranks() const { return ranks_; }
  StoreClient& store() { return *client_; }

  // This rank is done, or cannot go on because of an error, which the others are told. Rank 0 then
  // waits until the others have left too, for as long as `timeout`, and for no more than 2 s after
  // an error. DeadlineExceeded if they have not.
  absl::Status Leave(const absl::Status& why = absl::OkStatus(),
                     std::chrono::milliseconds timeout = kRendezvousTimeout);

 private:
  Rendezvous() = default;

  absl::Status WaitForRanks(const RankEnvironment& environment, std::chrono::milliseconds timeout,
                            std::chrono::milliseconds whole_timeout);

  std::unique_ptr<StoreServer> server_;  // of rank 0
  std::unique_ptr<StoreClient> client_;  // ends before the server
  std::vector<RankInfo> ranks_;
};

// "rank 3", "ranks 2 and 3", "ranks 1, 2 and 3"; many are cut short.
std::string FormatRanks(absl::Span<const int> ranks);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_RENDEZVOUS_H_
