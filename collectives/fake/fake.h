// Ranks that are threads of this process, for tests: of one operation or of a whole training run.
// They communicate through shared memory (collectives/shm), as ranks of one host do, but a seed
// disturbs their timing: a program that depends on it fails under one seed or another.
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
#include "collectives/shm/host.h"
#include "collectives/world.h"

namespace tessera::comm {

struct FakeOptions {
  int ranks = 2;
  uint64_t seed = 0;  // of pauses before operations; 0: none
  double timeout_seconds = 60;
  bool guarded = false;  // memory ends at a page that nobody may touch
};

// A rank that is a thread.
class FakeRank : public World {
 public:
  int rank() const override { return world_->rank(); }
  int size() const override { return world_->size(); }
  const std::string& backend() const override;
  Communicator& communicator() override { return *world_; }
  Communicator& cpu_communicator() override { return *world_; }
  absl::StatusOr<char*> Allocate(int64_t bytes) override { return host_->Allocate(*world_, bytes); }
  absl::Status Free(char* data) override { return host_->Free(*world_, data); }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;
  absl::Status Leave(const absl::Status& why) override;
  using World::Leave;

 private:
  friend absl::StatusOr<std::unique_ptr<FakeRank>> MakeFakeRank(int rank,
                                                                const FakeOptions& options,
                                                                const Exchange& exchange);
  std::unique_ptr<shm::Host> host_;
  std::unique_ptr<Communicator> world_;
};

// Runs `body` on a thread for each rank, and returns what each returned. If it returns an error on
// one rank, waits of the others end with an error too. (A body that owns memory of its rank leaves
// with the error before it frees the memory, which the ranks do together.)
std::vector<absl::Status> RunFake(const FakeOptions& options,
                                  const std::function<absl::Status(World& rank)>& body);

// The same without communicators: `body` can only exchange texts.
std::vector<absl::Status> RunThreads(
    int ranks, const std::function<absl::Status(int rank, const Exchange& exchange)>& body);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_FAKE_FAKE_H_
