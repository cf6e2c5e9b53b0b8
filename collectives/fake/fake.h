// Ranks that are threads of this process, for tests of one operation or of a complete training run.
// They communicate through shared memory (collectives/shm), as ranks of one host do. A seed adds
// pauses, so that a program whose results depend on timing fails under some seed.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_FAKE_FAKE_H_
#define TESSERA_COLLECTIVES_FAKE_FAKE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"
#include "collectives/shm/backend.h"
#include "collectives/world.h"

namespace tessera::comm {

struct FakeOptions {
  int ranks = 2;
  uint64_t seed = 0;  // of the pauses before operations; 0: no pauses
  double timeout_seconds = 60;
  bool guarded = false;  // an inaccessible page follows each allocation
};

// A rank that is a thread.
class FakeRank : public World {
 public:
  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  const std::string& backend() const override;
  Communicator& communicator() override { return *world_; }
  Communicator& cpu_communicator() override { return *world_; }
  absl::StatusOr<char*> Allocate(int64_t bytes) override { return shm_->Allocate(*world_, bytes); }
  absl::Status Free(char* data) override { return shm_->Free(*world_, data); }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
  absl::Status Leave(const absl::Status& why) override;
  using World::Leave;

 private:
  friend absl::StatusOr<std::unique_ptr<FakeRank>> MakeFakeRank(int rank,
                                                                const FakeOptions& options,
                                                                const Exchange& exchange);
  std::unique_ptr<shm::Backend> shm_;
  std::unique_ptr<Communicator> world_;
};

// Runs `body` on one thread per rank and returns the status of each. If `body` fails on one rank,
// waits of the others end with an error too. (Free is collective, so a body that owns memory of its
// rank must call Leave with the error before it frees the memory.)
std::vector<absl::Status> RunFake(const FakeOptions& options,
                                  const std::function<absl::Status(World& rank)>& body);

// The same without communicators: `body` can only exchange texts.
std::vector<absl::Status> RunThreads(
    int ranks, const std::function<absl::Status(int rank, const Exchange& exchange)>& body);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_FAKE_FAKE_H_
