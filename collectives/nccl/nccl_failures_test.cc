// Ranks as processes on GPUs: the errors of the others when one dies, is stopped, or never arrives.
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#ifdef TESSERA_CUDA
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "collectives/nccl/testing/test_ranks.h"
#include "core/status/status_macros.h"
#endif

namespace tessera::comm::nccl {
namespace {

#ifdef TESSERA_CUDA

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 3;
constexpr int kVictim = 1;

class NcclFailuresTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Gpus() == 0) GTEST_SKIP() << "no GPU on this machine";
  }
};

Ticket IssueOne(Communicator& world, const std::string& what, float* data, int64_t count) {
  if (what == "all-reduce") return world.AllReduce(data, data, count, DType::kF32);
  if (what == "broadcast") return world.Broadcast(data, data, count, DType::kF32, kVictim);
  if (what == "barrier") return world.Barrier();
  return world.rank() == kVictim ? world.Send(data, count, DType::kF32, 0)
                                 : world.Receive(data, count, DType::kF32, kVictim);
}

// All ranks repeat an operation; after three of them the victim sends itself `signal`. Checks the
// error of the others, and that they return it within `at_most` seconds.
void ExpectNoticed(const std::string& use, int signal, bool check, double timeout, double at_most,
                   const std::string& what) {
  SCOPED_TRACE(use);
  const auto results = RunRanks(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
    const DeviceOptions options = {.timeout_seconds = timeout, .check = check};
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, kRanks, exchange, options));
    Communicator& world = *self.world;
    constexpr int64_t kCount = 1 << 20;
    ASSIGN_OR_RETURN(char* const memory, self.device->Allocate(kCount * 4));
    float* const data = reinterpret_cast<float*>(memory);
    ASSIGN_OR_RETURN(const auto pids, exchange("pid", absl::StrCat(getpid())));
    const bool has_part = use != "message" || rank != 2;
    for (int step = 0; step < 3 && has_part; ++step) {
      RETURN_IF_ERROR(world.Wait(IssueOne(world, use, data, kCount)));
    }
    // The others may still wait for the victim in the third operation, on which all have agreed.
    // They would fail in that one, and could not name a victim that is stopped.
    if (signal == SIGSTOP || !check) {
      RETURN_IF_ERROR(exchange("all have ended the third operation", "").status());
    }
    if (rank == kVictim) {
      kill(getpid(), signal);
      return absl::OkStatus();
    }
    const Clock::time_point begin = Clock::now();
    absl::Status status =
        world.Wait(has_part ? IssueOne(world, use, data, kCount) : world.Barrier());
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    std::fprintf(stderr, "%s: rank %d returned after %.1f s\n", use.c_str(), rank, seconds);
    if (signal == SIGSTOP) {
      sleep(1);  // until all have noticed
      kill(std::stoi(pids[kVictim]), SIGKILL);
    }
    if (seconds > at_most) return absl::InternalError(absl::StrCat("after ", seconds, " s"));
    return status;
  });
  EXPECT_EQ(results[kVictim].message(), "signal 9");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("of group 'world', in "), HasSubstr(what)));
  }
}

TEST_F(NcclFailuresTest, ADeathIsNoticedInEveryOperation) {
  for (const char* use : {"all-reduce", "broadcast", "barrier", "message"}) {
    ExpectNoticed(use, SIGKILL, true, 60, 20, "rank 1 (process ");
  }
}

TEST_F(NcclFailuresTest, ARankThatStopsIsNoticedAtTheTimeOut) {
  std::vector<std::string> uses = {"all-reduce", "message"};
  // Each waits for the time-out, and for the end of NCCL's abort.
  if (!ShareGpus(kRanks)) uses.insert(uses.end(), {"broadcast", "barrier"});
  for (const std::string& use : uses) {
    ExpectNoticed(use, SIGSTOP, true, ShortTimeout(kRanks), 30, "did not come within ");
  }
}

// Without checks NCCL may notice the death; otherwise the time-out does.
TEST_F(NcclFailuresTest, WithoutChecksADeathEndsAtTheTimeOut) {
  for (const char* use : {"all-reduce", "barrier"}) {
    ExpectNoticed(use, SIGKILL, false, ShortTimeout(kRanks), 30, "after 3 collectives");
  }
}

TEST_F(NcclFailuresTest, ARankThatNeverComesIsNamed) {
  const auto results = RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    tcp::NetworkOptions over_cpu;
    over_cpu.timeout_seconds = 3;
    ASSIGN_OR_RETURN(const auto network, tcp::Network::Create(rank, 2, exchange, over_cpu));
    ASSIGN_OR_RETURN(const auto control, network->World());
    if (rank == 1) {
      sleep(6);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const auto device, Device::Create(control.get(), {.timeout_seconds = 3}));
    return device->World().status();
  });
  EXPECT_THAT(std::string(results[0].message()),
              AllOf(HasSubstr("rank 1 (process "), HasSubstr("did not come within 3 s")));
}

#else

TEST(NcclFailuresTest, ADeathIsNoticed) { GTEST_SKIP() << "built without a CUDA toolkit"; }

#endif

}  // namespace
}  // namespace tessera::comm::nccl
