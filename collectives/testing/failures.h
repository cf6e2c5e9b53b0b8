// Collects the errors of the ranks of a group in which one rank dies or is stopped.
#ifndef TESSERA_COLLECTIVES_TESTING_FAILURES_H_
#define TESSERA_COLLECTIVES_TESTING_FAILURES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "collectives/exchange.h"

namespace tessera::comm {

// An operation that is repeated. Only the victim and rank 0 take part in messages.
struct Use {
  std::string name;
  bool is_pair = false;
  // `data` has 16 bytes for each element.
  std::function<Ticket(Communicator& world, char* data)> issue;
};
// Returns one of each operation, on `count` elements of f32.
std::vector<Use> AllUses(int64_t count, int ranks, int victim);

// A rank's group and memory.
struct TestRank {
  std::shared_ptr<void> backend;  // outlives the group
  std::shared_ptr<Communicator> world;
  char* data = nullptr;  // null: private memory is used
};

struct Harm {
  int ranks = 3;
  int victim = 1;
  int signal = 0;              // SIGKILL or SIGSTOP, which it sends to itself
  double at_most_seconds = 1;  // within which every other rank must notice
  // How long after the first rank noticed the others may take, before a stopped victim is killed.
  double until_all_notice_seconds = 0.3;
  int64_t data_bytes = 4 << 20;
};

// Runs each rank as a process. All run `use` three times, and then the victim sends itself the
// signal. Returns each rank's status of the fourth run.
std::vector<absl::Status> RunWithVictim(
    const Use& use, const Harm& harm,
    const std::function<absl::StatusOr<TestRank>(int rank, const Exchange& exchange)>& make);

// Runs `test` with each number below `count`, in a process each, four at a time: for tests that
// wait for a time-out most of the time. Returns their statuses.
std::vector<absl::Status> RunFourAtATime(int count,
                                         const std::function<absl::Status(int number)>& test);

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_TESTING_FAILURES_H_
