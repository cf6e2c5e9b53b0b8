// Ranks that are threads of this process, for tests: of one operation or of a whole training run.
// They communicate through shared memory (collectives/shm), as ranks of one host do, but their
// timing is turned about by a seed: what depends on it fails under one seed or another.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_FAKE_FAKE_H_
#define TESSERA_COLLECTIVES_FAKE_FAKE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/shm/host.h"

namespace tessera::comm {

struct FakeOptions {
  int ranks = 2;
  uint64_t seed = 0;  // of pauses before operations; 0: none
  double timeout_seconds = 60;
};

// What a rank has; a thread's own.
class FakeRank {
 public:
  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  Communicator& world() { return *world_; }
  // Collective; see World::Allocate.
  absl::StatusOr<char*> Allocate(int64_t bytes) { return host_->Allocate(*world_, bytes); }

 private:
  friend absl::StatusOr<FakeRank> MakeFakeRank(int rank, const FakeOptions& options,
                                               const Exchange& exchange);
  std::unique_ptr<shm::Host> host_;
  std::unique_ptr<Communicator> world_;
};

// Runs `body` on a thread for each rank, and returns what each returned.
std::vector<absl::Status> RunFake(const FakeOptions& options,
                                  const std::function<absl::Status(FakeRank& rank)>& body);

// The same without communicators: `body` has only a way to exchange texts.
std::vector<absl::Status> RunThreads(
    int ranks, const std::function<absl::Status(int rank, const Exchange& exchange)>& body);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_FAKE_FAKE_H_
