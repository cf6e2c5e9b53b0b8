// Ranks as processes: their results, and the errors of the others when one dies or is stopped.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/tcp/network.h"
#include "collectives/testing/conformance.h"
#include "collectives/testing/failures.h"
#include "collectives/testing/ranks.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::tcp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr int kRanks = 3;
constexpr int kVictim = 1;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(TcpProcessesTest, EveryOperation) {
  for (const int ranks : {2, 3}) {
    const auto results =
        RunProcesses(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
          ASSIGN_OR_RETURN(const auto network, Network::Create(rank, ranks, exchange, {}));
          ASSIGN_OR_RETURN(const auto world, network->World());
          ConformanceOptions options;
          options.sizes = {0, 1, 1001, 40000};
          return CheckOperations(*world, options);
        });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

// Expects that the other ranks report the failure, with `what`, within `at_most` seconds.
void ExpectNoticed(const Use& use, int signal, double timeout, double at_most,
                   const std::string& what) {
  SCOPED_TRACE(use.name);
  const auto results = RunWithVictim(
      use, {.ranks = kRanks, .victim = kVictim, .signal = signal, .at_most_seconds = at_most},
      [&](int rank, const Exchange& exchange) -> absl::StatusOr<TestRank> {
        NetworkOptions options;
        options.timeout_seconds = timeout;
        ASSIGN_OR_RETURN(std::shared_ptr<Network> network,
                         Network::Create(rank, kRanks, exchange, options));
        TestRank self;
        ASSIGN_OR_RETURN(self.world, network->World());
        self.backend = network;
        return self;
      });
  EXPECT_EQ(results[kVictim].message(), "signal 9");
  for (const int rank : {0, 2}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("rank 1 (process "), HasSubstr(what)));
  }
}

TEST(TcpFailuresTest, ADeathIsNoticedInEveryOperation) {
  for (const int64_t count : {300, 60000, 500000}) {
    for (const Use& use : AllUses(count, kRanks, kVictim)) {
      ExpectNoticed(use, SIGKILL, 60, 1.5, "died; waiting in ");
    }
  }
}

TEST(TcpFailuresTest, ARankThatStopsIsNoticedAtTheTimeOut) {
  std::vector<Use> uses = AllUses(300, kRanks, kVictim);
  for (const Use& use : AllUses(500000, kRanks, kVictim)) uses.push_back(use);
  const auto results = RunFourAtATime(static_cast<int>(uses.size()), [&](int i) {
    ExpectNoticed(uses[i], SIGSTOP, 0.5, 2, "did not come within 0.5 s; waiting in ");
    return ::testing::Test::HasFailure() ? absl::InternalError(uses[i].name) : absl::OkStatus();
  });
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Sends signals at arbitrary points of an operation, many times.
TEST(TcpFailuresTest, ADeathAtAnyPointEndsInItsNameOrNotAtAll) {
  for (const Use& use : AllUses(500000, kRanks, kVictim)) {
    for (int microseconds = 100; microseconds < 10000; microseconds *= 4) {
      const auto results =
          RunProcesses(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
            ASSIGN_OR_RETURN(const auto network, Network::Create(rank, kRanks, exchange, {}));
            ASSIGN_OR_RETURN(const auto world, network->World());
            std::vector<char> data(4 << 20);
            RETURN_IF_ERROR(world->Wait(world->Barrier()));
            std::thread killer;
            if (rank == kVictim) {
              killer = std::thread([&] {
                std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
                kill(getpid(), SIGKILL);
              });
            }
            absl::Status status;
            while (status.ok()) {
              // This rank takes no part in messages, so it does not learn when to stop.
              const bool idle = use.is_pair && rank == 2;
              status = world->Wait(idle ? world->Barrier() : use.issue(*world, data.data()));
            }
            if (killer.joinable()) killer.join();
            return status;
          });
      for (const int rank : {0, 2}) {
        EXPECT_THAT(std::string(results[rank].message()),
                    AllOf(HasSubstr("rank 1 (process "), HasSubstr("died; waiting in ")));
      }
    }
  }
}

// A rank that ends at once has still sent its last messages.
TEST(TcpFailuresTest, WhatWasSentLastArrives) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    const auto results = RunProcesses(2, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const auto network, Network::Create(rank, 2, exchange, {}));
      ASSIGN_OR_RETURN(const auto world, network->World());
      std::vector<int64_t> data(200000, rank);
      if (rank == 0) {
        const Ticket large = world->Send(data.data(), 200000, DType::kI64, 1);
        const Ticket small = world->Send(data.data(), 2000, DType::kI64, 1);
        RETURN_IF_ERROR(world->Wait(large));
        return world->Wait(small);
      }
      RETURN_IF_ERROR(world->Wait(world->Receive(data.data(), 200000, DType::kI64, 0)));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      RETURN_IF_ERROR(world->Wait(world->Receive(data.data(), 2000, DType::kI64, 0)));
      return data[0] == 0 && data[199999] == 0 ? absl::OkStatus() : absl::InternalError("wrong");
    });
    for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
  }
}

// Two hosts (network namespaces), each with one address, connected to each other. Needs root.
class TwoHosts {
 public:
  TwoHosts() : name_(absl::StrCat("tcp", getpid() % 100000)) {
    is_there_ = Run(absl::StrCat("ip netns add ", name(0), " && ip netns add ", name(1),
                                 " && ip link add ", cable(0), " netns ", name(0),
                                 " type veth peer name ", cable(1), " netns ", name(1)));
    for (int host : {0, 1}) {
      is_there_ = is_there_ && Run(absl::StrCat("ip -n ", name(host), " address add 10.77.0.",
                                                host + 1, "/24 dev ", cable(host), " && ip -n ",
                                                name(host), " link set ", cable(host), " up"));
    }
  }
  ~TwoHosts() {
    for (int host : {0, 1}) Run(absl::StrCat("ip netns del ", name(host)));
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  bool is_there() const { return is_there_; }
  // Moves this thread, and those that it starts, to a host.
  absl::Status Enter(int host) const {
    const int space = open(absl::StrCat("/run/netns/", name(host)).c_str(), O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) return absl::ErrnoToStatus(errno, "setns");
    close(space);
    return absl::OkStatus();
  }
  void TakeDown(int host) const {
    Run(absl::StrCat("ip -n ", name(host), " link set ", cable(host), " down"));
  }

 private:
  std::string name(int host) const { return absl::StrCat(name_, "-", host); }
  std::string cable(int host) const { return absl::StrCat(name_, "c", host); }
  static bool Run(const std::string& command) {
    return system(absl::StrCat("(", command, ") 2>/dev/null").c_str()) ==
           0;  // NOLINT(cert-env33-c)
  }
  const std::string name_;
  bool is_there_ = false;
};

TEST(TcpHostsTest, AHostThatVanishesIsNoticedAtTheTimeOut) {
  const TwoHosts hosts;
  if (geteuid() != 0 || !hosts.is_there()) {
    GTEST_SKIP() << "needs root, ip of iproute2 and network namespaces, to make two hosts of one";
  }
  const auto results = RunProcesses(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    RETURN_IF_ERROR(hosts.Enter(rank));
    NetworkOptions options;  // finds the address by itself
    options.timeout_seconds = 1;
    ASSIGN_OR_RETURN(const auto network, Network::Create(rank, 2, exchange, options));
    ASSIGN_OR_RETURN(const auto world, network->World());
    ConformanceOptions conformance;
    conformance.dtypes = {DType::kF32};
    RETURN_IF_ERROR(CheckOperations(*world, conformance));
    std::vector<float> data(3 << 20);
    std::thread fate;
    if (rank == 1) {
      fate = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        hosts.TakeDown(1);
      });
    }
    absl::Status status;
    Clock::time_point begin;
    while (status.ok()) {
      begin = Clock::now();
      status = world->Wait(world->AllReduce(data.data(), data.data(), 3 << 20, DType::kF32));
    }
    if (fate.joinable()) fate.join();
    if (Since(begin) > 3) return absl::InternalError(absl::StrCat("after ", Since(begin), " s"));
    return status;
  });
  for (const int rank : {0, 1}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr(absl::StrCat("rank ", 1 - rank, " (process ")),
                      HasSubstr(absl::StrCat("10.77.0.", 2 - rank)),
                      HasSubstr("did not come within 1 s; waiting in all-reduce of 3145728 f32")));
  }
}

}  // namespace
}  // namespace tessera::comm::tcp
