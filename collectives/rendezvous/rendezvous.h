// The rendezvous of the ranks of a job: rank 0 runs the store, each rank connects to it and waits
// until all ranks are connected.
#ifndef TESSERA_COLLECTIVES_RENDEZVOUS_RENDEZVOUS_H_
#define TESSERA_COLLECTIVES_RENDEZVOUS_RENDEZVOUS_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "collectives/rendezvous/environment.h"
#include "collectives/rendezvous/store_client.h"
#include "collectives/rendezvous/store_server.h"

namespace tessera::comm {

inline constexpr std::chrono::seconds kRendezvousTimeout{60};

// Thread safety: one thread at a time.
class Rendezvous {
 public:
  // Returns when all ranks have joined. DeadlineExceeded names those that did not:
  //
  //   ranks 2 and 3 of 4 did not join at 10.0.0.1:29500 within 60 s
  //
  // Unavailable if a rank that had joined is lost meanwhile; AlreadyExists if rank 0's port is in
  // use and cannot be another; other errors as in StoreClient::Connect.
  //
  // Rank 0 listens until all ranks have joined: at loopback if all are on its host, otherwise at
  // all of its addresses. If `interface` (an address of this host, or the name of an interface) is
  // not empty, it listens only there, at loopback, and at those of its addresses to which
  // environment.master_host resolves.
  static absl::StatusOr<std::unique_ptr<Rendezvous>> Join(
      const RankEnvironment& environment, std::chrono::milliseconds timeout = kRendezvousTimeout,
      const std::string& interface = "");

  // If Leave was not called, the other ranks see this rank as lost.
  ~Rendezvous() = default;

  StoreClient& store() { return *client_; }

  // Sets this rank's value of a key that no other exchange has, and returns those that `ranks` set,
  // in this order. DeadlineExceeded names the ranks whose values are not there in time, and
  // continues with `problem`.
  absl::StatusOr<std::vector<std::string>> Exchange(absl::string_view key, absl::string_view mine,
                                                    const std::vector<int>& ranks,
                                                    std::chrono::milliseconds timeout,
                                                    absl::string_view problem);

  // The job's secret: from the environment, or made by rank 0.
  const std::string& secret() const { return client_->secret(); }

  // Ends this rank's membership: with OK if it is done, otherwise with an error, which is sent to
  // the others. Rank 0 then waits until the others have left too or are lost, however long they
  // take (to save their state, for example), but after an error for at most 0.3 s.
  absl::Status Leave(const absl::Status& why = absl::OkStatus());

 private:
  explicit Rendezvous(int rank) : rank_(rank) {}

  const int rank_;
  std::unique_ptr<StoreServer> server_;  // on rank 0
  std::unique_ptr<StoreClient> client_;  // destroyed before the server
};

// "rank 3", "ranks 2 and 3", "ranks 1, 2 and 3"; a long list is shortened.
std::string FormatRanks(absl::Span<const int> ranks);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_RENDEZVOUS_RENDEZVOUS_H_
