// Ranks on several hosts, emulated on one host.
#ifndef TESSERA_COLLECTIVES_TESTING_HOSTS_H_
#define TESSERA_COLLECTIVES_TESTING_HOSTS_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/net/integrity.h"
#include "collectives/shm/backend.h"
#include "collectives/tcp/network.h"

namespace tessera::comm {

struct HostedRank {
  std::unique_ptr<shm::Backend> shm_backend;
  std::unique_ptr<tcp::Network> network;
  std::unique_ptr<Communicator> host_group;  // the ranks of the host, for Allocate
  std::unique_ptr<Communicator> world;       // of collectives/hierarchical
};

// Makes the groups of a rank. Collective. host_of[r] is the host of rank r. `integrity` is
// NetworkOptions::integrity.
absl::StatusOr<HostedRank> MakeHostedRank(int rank, const std::vector<int>& host_of,
                                          const Exchange& exchange, double timeout_seconds = 60,
                                          std::optional<Integrity> integrity = std::nullopt);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_HOSTS_H_
