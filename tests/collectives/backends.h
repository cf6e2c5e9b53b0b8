// The list of all CPU backends, for tests whose ranks are threads.
#ifndef TESSERA_TESTS_COLLECTIVES_BACKENDS_H_
#define TESSERA_TESTS_COLLECTIVES_BACKENDS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/fake/fake.h"
#include "collectives/shm/backend.h"
#include "collectives/tcp/network.h"
#include "collectives/testing/hosts.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"

namespace tessera::comm {

struct Rank {
  std::shared_ptr<void> backend;  // outlives the group
  std::shared_ptr<Communicator> world;
  std::function<absl::StatusOr<char*>(int64_t bytes)> allocate;  // null if the backend has none
};

inline absl::StatusOr<Rank> OnShm(int rank, int ranks, const Exchange& exchange) {
  ASSIGN_OR_RETURN(std::shared_ptr<shm::Backend> backend,
                   shm::Backend::Create(rank, ranks, exchange, {}));
  Rank self;
  ASSIGN_OR_RETURN(self.world, backend->World());
  self.allocate = [backend = backend.get(), world = self.world.get()](int64_t bytes) {
    return backend->Allocate(*world, bytes);
  };
  self.backend = std::move(backend);
  return self;
}

inline absl::StatusOr<Rank> OnTcp(int rank, int ranks, const Exchange& exchange) {
  ASSIGN_OR_RETURN(std::shared_ptr<tcp::Network> network,
                   tcp::Network::Create(rank, ranks, exchange, {}));
  Rank self;
  ASSIGN_OR_RETURN(self.world, network->World());
  self.backend = std::move(network);
  return self;
}

// Makes a rank on hosts of two ranks each; the last host may have one.
inline absl::StatusOr<Rank> OnHierarchical(int rank, int ranks, const Exchange& exchange) {
  std::vector<int> host_of;
  for (int r = 0; r < ranks; ++r) host_of.push_back(ranks == 2 ? r : r / 2);
  ASSIGN_OR_RETURN(HostedRank hosted, MakeHostedRank(rank, host_of, exchange));
  auto shared = std::make_shared<HostedRank>(std::move(hosted));
  Rank self;
  self.world = std::move(shared->world);
  self.allocate = [shared = shared.get()](int64_t bytes) {
    return shared->shm_backend->Allocate(*shared->host_group, bytes);
  };
  self.backend = std::move(shared);
  return self;
}

struct Backend {
  const char* name;
  absl::StatusOr<Rank> (*make)(int rank, int ranks, const Exchange& exchange);
};

inline void ExpectOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace tessera::comm

#endif  // TESSERA_TESTS_COLLECTIVES_BACKENDS_H_
