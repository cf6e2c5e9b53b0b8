#include "collectives/testing/failures.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/testing/ranks.h"
#include "core/status/status_macros.h"

namespace tessera::comm {

std::vector<Use> AllUses(int64_t count, int ranks, int victim) {
  const DType f32 = DType::kF32;
  const int64_t part = count / ranks;
  return {
      {"all-reduce", false,
       [=](Communicator& world, char* data) { return world.AllReduce(data, data, count, f32); }},
      {"reduce-scatter", false,
       [=](Communicator& world, char* data) {
         return world.ReduceScatter(data, data + part * 4 * world.rank(), part * ranks, part, f32);
       }},
      {"all-gather", false,
       [=](Communicator& world, char* data) {
         return world.AllGather(data + part * 4 * world.rank(), data, part * ranks, part, f32);
       }},
      {"all-to-all", false,
       [=](Communicator& world, char* data) {
         return world.AllToAll(data, data + count * 4, part, f32);
       }},
      {"broadcast", false,
       [=](Communicator& world, char* data) {
         return world.Broadcast(data, data, count, f32, victim);
       }},
      {"barrier", false, [](Communicator& world, char* /*data*/) { return world.Barrier(); }},
      {"send and receive", true,
       [=](Communicator& world, char* data) {
         return world.rank() == victim ? world.Send(data, count, f32, 0)
                                       : world.Receive(data, count, f32, victim);
       }},
  };
}

std::vector<absl::Status> RunWithVictim(
    const Use& use, const Harm& harm,
    const std::function<absl::StatusOr<TestRank>(int rank, const Exchange& exchange)>& make) {
  using Clock = std::chrono::steady_clock;
  return RunProcesses(harm.ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(TestRank self, make(rank, exchange));
    std::vector<char> own(self.data == nullptr ? harm.data_bytes : 0);
    char* const data = self.data == nullptr ? own.data() : self.data;
    ASSIGN_OR_RETURN(const auto pids, exchange("pid", absl::StrCat(getpid())));
    const bool takes_part = !use.is_pair || rank == harm.victim || rank == 0;
    for (int i = 0; i < 3 && takes_part; ++i) {
      RETURN_IF_ERROR(self.world->Wait(use.issue(*self.world, data)));
    }
    if (rank == harm.victim) {
      kill(getpid(), harm.signal);
      return absl::OkStatus();
    }
    // The victim dies or is stopped during this operation, or before it.
    const Clock::time_point begin = Clock::now();
    absl::Status status = self.world->Wait(use.issue(*self.world, data));
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (harm.signal == SIGSTOP) {
      std::this_thread::sleep_for(std::chrono::duration<double>(harm.until_all_notice_seconds));
      int pid = 0;
      if (absl::SimpleAtoi(pids[harm.victim], &pid)) kill(pid, SIGKILL);
    }
    if (seconds > harm.at_most_seconds) {
      return absl::InternalError(absl::StrCat("after ", seconds, " s: ", status.message()));
    }
    return status;
  });
}

std::vector<absl::Status> RunFourAtATime(int count,
                                         const std::function<absl::Status(int number)>& test) {
  constexpr int kAtATime = 4;
  std::vector<absl::Status> results;
  for (int first = 0; first < count; first += kAtATime) {
    const std::vector<absl::Status> some =
        RunProcesses(std::min(kAtATime, count - first),
                     [&](int i, const Exchange& /*exchange*/) { return test(first + i); });
    results.insert(results.end(), some.begin(), some.end());
  }
  return results;
}

}  // namespace tessera::comm
