// Checks buffers and time-outs when a group fails or its job is stopped, over shared memory.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/testing/ranks.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/collectives/backends.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

absl::StatusOr<std::unique_ptr<shm::Backend>> MakeBackend(int rank, int ranks,
                                                          const Exchange& exchange,
                                                          const shm::BackendOptions& options) {
  return shm::Backend::Create(rank, ranks, exchange, options);
}

// Regression: the time in which the job was stopped counted as waiting.
TEST(StoppedJobTest, GoesOnWhenItIsContinued) {
  constexpr double kTimeout = 1;
  const auto results = RunProcesses(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto texts, exchange("pid", absl::StrCat(getpid())));
    if (rank == 0 && fork() == 0) {
      std::vector<int> processes(2);
      for (int r = 0; r < 2; ++r) (void)absl::SimpleAtoi(texts[r], &processes[r]);
      Sleep(0.3);
      for (const int process : processes) kill(process, SIGSTOP);
      Sleep(2 * kTimeout);
      for (const int process : processes) kill(process, SIGCONT);
      _exit(0);
    }
    ASSIGN_OR_RETURN(const auto backend,
                     MakeBackend(rank, 2, exchange, {.timeout_seconds = kTimeout}));
    ASSIGN_OR_RETURN(const auto world, backend->World());
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    while (std::chrono::steady_clock::now() < end) {
      if (rank == 1) Sleep(0.2);
      int64_t is_over = std::chrono::steady_clock::now() >= end ? 1 : 0;
      RETURN_IF_ERROR(
          world->Wait(world->AllReduce(&is_over, &is_over, 1, DType::kI64, Reduction::kMax)));
      if (is_over != 0) break;
    }
    return absl::OkStatus();
  });
  ExpectOk(results);
}

// A group with an infinite grace period waits for a late rank.
TEST(GracePeriodTest, WithoutABoundALateRankIsWaitedFor) {
  constexpr double kTimeout = 0.3;
  constexpr double kLate = 2.5;  // more than the grace period of a group on several hosts
  const std::vector<std::vector<int>> hosts_of = {{0, 0, 0}, {0, 1, 2}, {0, 0, 1}};
  // At once, because they wait.
  const auto jobs = RunProcesses(3, [&](int job, const Exchange& /*exchange*/) -> absl::Status {
    const auto results = RunProcesses(3, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const HostedRank self,
                       MakeHostedRank(rank, hosts_of[job], exchange, kTimeout));
      ASSIGN_OR_RETURN(const auto group, self.world->Split("unbounded", {0, 0, 0}));
      group->set_grace_period(std::numeric_limits<double>::infinity());
      for (const int late : {0, 1, 2}) {
        if (rank == late) Sleep(kLate);
        int64_t sum = 1;
        RETURN_IF_ERROR(group->Wait(group->AllReduce(&sum, &sum, 1, DType::kI64)));
        RETURN_IF_ERROR(group->Wait(group->Barrier()));
      }
      return absl::OkStatus();
    });
    for (const absl::Status& status : results) RETURN_IF_ERROR(status);
    return absl::OkStatus();
  });
  ExpectOk(jobs);
}

TEST(GracePeriodTest, WithoutABoundADeathEndsTheWait) {
  for (const std::vector<int>& host_of : {std::vector<int>{0, 0, 0}, {0, 1, 2}, {0, 0, 1}}) {
    const auto results = RunProcesses(3, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const HostedRank self, MakeHostedRank(rank, host_of, exchange));
      ASSIGN_OR_RETURN(const auto group, self.world->Split("unbounded", {0, 0, 0}));
      group->set_grace_period(std::numeric_limits<double>::infinity());
      RETURN_IF_ERROR(group->Wait(group->Barrier()));
      if (rank == 1) {
        Sleep(0.3);
        kill(getpid(), SIGKILL);
      }
      const auto begin = std::chrono::steady_clock::now();
      absl::Status status = group->Wait(group->Barrier());
      if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(1300)) {
        return absl::InternalError("noticed too late");
      }
      return status;
    });
    for (const int rank : {0, 2}) {
      EXPECT_THAT(std::string(results[rank].message()), HasSubstr("died; waiting in "));
    }
  }
}

// Regression: a late peer still wrote its part of the sum into the buffer.
TEST(FailedGroupTest, NoPeerWritesIntoABufferThatTheCallerHasBack) {
  constexpr int64_t kCount = 1 << 20;
  const auto results = RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto backend, MakeBackend(rank, 2, exchange, {.timeout_seconds = 0.3}));
    ASSIGN_OR_RETURN(const auto world, backend->World());
    ASSIGN_OR_RETURN(char* const data, backend->Allocate(*world, kCount * 4));
    if (rank == 1) {
      std::memset(data, 1, kCount * 4);  // the sum differs from the bytes of rank 0
      Sleep(0.6);
      absl::Status status = world->Wait(world->AllReduce(data, data, kCount, DType::kF32));
      RETURN_IF_ERROR(exchange("end", "").status());
      return status;
    }
    absl::Status status = world->Wait(world->AllReduce(data, data, kCount, DType::kF32));
    std::memset(data, 7, kCount * 4);
    RETURN_IF_ERROR(exchange("end", "").status());
    for (int64_t i = 0; i < kCount * 4; ++i) {
      if (data[i] != 7) return absl::InternalError(absl::StrCat("byte ", i, " was written"));
    }
    return status;
  });
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("did not come within 0.3 s"));
  EXPECT_THAT(std::string(results[1].message()), HasSubstr("aborted: "));
}

int64_t OpenDescriptors() {
  const std::filesystem::directory_iterator descriptors("/proc/self/fd");
  return std::distance(begin(descriptors), end(descriptors));
}

// Regression: each peer, group and region kept a descriptor, nearly 1,024 with 64 ranks.
TEST(SharedMemoryTest, GroupsAndMemoryKeepNoDescriptors) {
  ExpectOk(RunProcesses(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto backend, MakeBackend(rank, 3, exchange, {}));
    ASSIGN_OR_RETURN(const auto world, backend->World());
    const int64_t before = OpenDescriptors();
    ASSIGN_OR_RETURN(const auto group, world->Split("group", {0, 0, 0}));
    RETURN_IF_ERROR(backend->Allocate(*world, 10'000).status());
    if (OpenDescriptors() != before) return absl::InternalError("descriptors are open");
    return group->Wait(group->Barrier());
  }));
}

TEST(SharedMemoryTest, IsFreedAndAllocatedAgain) {
  ExpectOk(RunThreads(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto backend, MakeBackend(rank, 2, exchange, {}));
    ASSIGN_OR_RETURN(const auto world, backend->World());
    for (int round = 0; round < 3; ++round) {
      std::vector<char*> memory;
      for (const int64_t count : {30'000, 50'000}) {
        ASSIGN_OR_RETURN(char* const data, backend->Allocate(*world, count * 4));
        memory.push_back(data);
        float* const values = reinterpret_cast<float*>(data);
        if (values[0] != 0 || values[count - 1] != 0) return absl::InternalError("no zeros");
        values[count - 1] = 2;
        RETURN_IF_ERROR(world->Wait(world->AllReduce(data, data, count, DType::kF32)));
        if (values[count - 1] != 4) return absl::InternalError("a sum is wrong");
      }
      for (char* const data : memory) RETURN_IF_ERROR(backend->Free(*world, data));
      if (backend->Free(*world, memory[0]).ok()) return absl::InternalError("freed twice");
    }
    return absl::OkStatus();
  }));
}

// A rank that is a moment late whenever its peers have come.
class LateGroup : public Communicator {
 public:
  explicit LateGroup(Communicator* group)
      : Communicator(group->name(), group->rank(), group->size()), group_(*group) {}

  absl::Status Wait(Ticket ticket) override {
    absl::Status status = group_.Wait(ticket);
    Sleep(0.2);
    return status;
  }
  bool Test(Ticket ticket) override { return group_.Test(ticket); }
  bool HasEnded(Ticket ticket) const override { return group_.HasEnded(ticket); }
  CompletionSource* SourceOf(Ticket ticket) override { return group_.SourceOf(ticket); }

 protected:
  Ticket Start(const Request& request, const absl::Status& /*status*/) override {
    return group_.Issue(request);
  }
  absl::StatusOr<std::unique_ptr<Communicator>> MakeGroup(absl::string_view name,
                                                          absl::Span<const int> colors,
                                                          Contents contents) override {
    return group_.Split(name, colors, contents);
  }

 private:
  Communicator& group_;
};

// Regression: a rank could use its buffer while a peer, whose other thread received the data, did
// not know the buffer yet.
TEST(SharedMemoryTest, IsKnownToAllRanksBeforeItIsUsed) {
  constexpr int64_t kBytes = 1 << 20;
  ExpectOk(RunProcesses(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto backend, MakeBackend(rank, 2, exchange, {}));
    ASSIGN_OR_RETURN(const auto world, backend->World());
    if (rank == 0) {
      ASSIGN_OR_RETURN(char* const data, backend->Allocate(*world, kBytes));
      std::memset(data, 7, kBytes);
      return world->Wait(world->Send(data, kBytes, DType::kU8, 1));
    }
    std::vector<char> received(kBytes);
    const Ticket receive = world->Receive(received.data(), kBytes, DType::kU8, 0);
    LateGroup late(world.get());
    RETURN_IF_ERROR(backend->Allocate(late, kBytes).status());
    RETURN_IF_ERROR(world->Wait(receive));
    return received == std::vector<char>(kBytes, 7) ? absl::OkStatus()
                                                    : absl::InternalError("other data");
  }));
}

TEST(SharedMemoryTest, WritingBehindItsEndIsASegmentationFault) {
  const auto results = RunProcesses(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto backend,
                     MakeBackend(rank, 2, exchange, {.memory = {.guarded = true}}));
    ASSIGN_OR_RETURN(const auto world, backend->World());
    ASSIGN_OR_RETURN(char* const data, backend->Allocate(*world, 1000 * 64));
    data[1000 * 64 - 1] = 1;
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer handles it
    if (rank == 1) data[1000 * 64] = 1;
    return absl::OkStatus();
  });
  EXPECT_TRUE(results[0].ok()) << results[0];
  EXPECT_EQ(results[1].message(), absl::StrCat("signal ", SIGSEGV));
}

// A buffer outside memory of Allocate is copied through staging areas, and these bytes are counted.
TEST(SharedMemoryTest, WhatIsCopiedIsCounted) {
  struct Case {
    Backend backend;
    int ranks;
    int64_t copies;  // of an all-reduce's buffer
  };
  for (const Case& each : {Case{{"shm", OnShm}, 2, 2},
                           // A reduce-scatter and an all-gather within a host of two ranks.
                           Case{{"hierarchical", OnHierarchical}, 4, 3}}) {
    SCOPED_TRACE(each.backend.name);
    ExpectOk(RunThreads(each.ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const Rank self, each.backend.make(rank, each.ranks, exchange));
      constexpr int64_t kCount = 1 << 17, kBytes = kCount * 4;
      ASSIGN_OR_RETURN(char* const shared, self.allocate(kBytes));
      std::vector<float> own(kCount);
      const auto expect = [&](Operation operation, int64_t staged) {
        EXPECT_EQ(self.world->traffic()[static_cast<size_t>(operation)].bytes_staged, staged);
      };
      const auto all_reduce = [&](void* data) {
        return self.world->Wait(self.world->AllReduce(data, data, kCount, DType::kF32));
      };
      RETURN_IF_ERROR(all_reduce(shared));
      expect(Operation::kAllReduce, 0);
      RETURN_IF_ERROR(all_reduce(own.data()));
      expect(Operation::kAllReduce, each.copies * kBytes);
      const bool sends = rank % 2 == 0;
      RETURN_IF_ERROR(
          self.world->Wait(sends ? self.world->Send(own.data(), kCount, DType::kF32, rank + 1)
                                 : self.world->Receive(own.data(), kCount, DType::kF32, rank - 1)));
      expect(Operation::kSend, sends ? kBytes : 0);
      return absl::OkStatus();
    }));
  }
}

}  // namespace
}  // namespace tessera::comm
