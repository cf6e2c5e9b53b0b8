// Ranks that are processes: values once more, and what the others do when one dies or stops.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/shm/host.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/ranks.h"
#include "core/tensor/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::shm {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 3;
constexpr int kVictim = 1;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(ShmProcessesTest, EveryOperation) {
  for (const int ranks : {2, 3}) {
    const auto results =
        RunProcesses(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
          ASSIGN_OR_RETURN(const auto host, Host::Create(rank, ranks, exchange, {}));
          ASSIGN_OR_RETURN(const auto world, host->World());
          ConformanceOptions options;
          options.sizes = {0, 1, 1001};
          RETURN_IF_ERROR(CheckOperations(*world, options));
          ASSIGN_OR_RETURN(options.shared, host->Allocate(*world, 1 << 21));
          return CheckOperations(*world, options);
        });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

// An operation that a rank starts, and into which all but one of the others come.
struct Use {
  std::string name;
  std::function<Ticket(Communicator& world, char* data)> issue;
};

std::vector<Use> Uses(int64_t count) {
  const DType f32 = DType::kF32;
  const int64_t part = count / kRanks;
  return {
      {"all-reduce",
       [=](Communicator& world, char* data) { return world.AllReduce(data, data, count, f32); }},
      {"reduce-scatter",
       [=](Communicator& world, char* data) {
         return world.ReduceScatter(data, data + part * 4 * world.rank(), part * kRanks, part, f32);
       }},
      {"all-gather",
       [=](Communicator& world, char* data) {
         return world.AllGather(data + part * 4 * world.rank(), data, part * kRanks, part, f32);
       }},
      {"all-to-all", [=](Communicator& world,
                         char* data) { return world.AllToAll(data, data + count * 4, part, f32); }},
      {"broadcast", [=](Communicator& world,
                        char* data) { return world.Broadcast(data, data, count, f32, kVictim); }},
      {"barrier", [](Communicator& world, char* /*data*/) { return world.Barrier(); }},
      {"send and receive",
       [=](Communicator& world, char* data) {
         return world.rank() == kVictim ? world.Send(data, count, f32, 0)
                                        : world.Receive(data, count, f32, kVictim);
       }},
  };
}

// Runs `use` over and over; after some of them the victim does `end` to itself. What the others
// say, and how long after that.
void ExpectNoticed(const Use& use, bool shared, int signal, double timeout, double at_most,
                   const std::string& what) {
  SCOPED_TRACE(absl::StrCat(use.name, shared ? " in shared memory" : ""));
  const auto results =
      RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
        HostOptions options;
        options.timeout_seconds = timeout;
        ASSIGN_OR_RETURN(const auto host, Host::Create(rank, kRanks, exchange, options));
        ASSIGN_OR_RETURN(const auto world, host->World());
        ASSIGN_OR_RETURN(char* data, host->Allocate(*world, 4 << 20));
        std::vector<char> own(4 << 20);
        if (!shared) data = own.data();
        ASSIGN_OR_RETURN(const auto pids, exchange("pid", absl::StrCat(getpid())));
        for (int turn = 0; turn < 3; ++turn) {
          const Ticket ticket = use.issue(*world, data);
          if (use.name == "send and receive" && rank == 2) break;  // it has no part in it
          RETURN_IF_ERROR(world->Wait(ticket));
        }
        if (rank == kVictim) {
          kill(getpid(), signal);
          return absl::OkStatus();
        }
        // In the midst of an operation more than before it.
        const Clock::time_point begin = Clock::now();
        absl::Status status = world->Wait(use.issue(*world, data));
        const double seconds = Since(begin);
        if (signal == SIGSTOP) {
          // Once all have noticed.
          std::this_thread::sleep_for(std::chrono::milliseconds(300));
          kill(std::stoi(pids[kVictim]), SIGKILL);
        }
        if (seconds > at_most) return absl::InternalError(absl::StrCat("after ", seconds, " s"));
        return status;
      });
  EXPECT_EQ(results[kVictim].message(), "signal 9");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("rank 1 (process "), HasSubstr(what)));
  }
}

TEST(ShmFailuresTest, ADeathIsNoticedInEveryOperation) {
  for (const int64_t count : {300, 60000}) {
    for (const Use& use : Uses(count)) {
      for (const bool shared : {false, true}) {
        ExpectNoticed(use, shared, SIGKILL, 60, 1.0, "died; waiting in ");
      }
    }
  }
}

TEST(ShmFailuresTest, ARankThatStopsIsNoticedAtTheTimeOut) {
  for (const Use& use : Uses(60000)) {
    ExpectNoticed(use, true, SIGSTOP, 0.5, 1.5, "did not come within 0.5 s; waiting in ");
  }
}

}  // namespace
}  // namespace tessera::shm
