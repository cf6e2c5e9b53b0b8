// Ranks on GPUs: values of every operation, memory around them, groups, streams. Built twice: for
// the GPUs of the machine, and for fake ones (fake_gpu.h).
#include <string>

#include "absl/status/status.h"
#include "collectives/nccl/device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#ifdef TESSERA_CUDA
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/nccl/mirrored.h"
#include "collectives/nccl/testing/test_ranks.h"
#include "collectives/testing/conformance.h"
#include "core/status/status_macros.h"
#endif

namespace tessera::comm::nccl {
namespace {

#ifdef TESSERA_CUDA

using ::testing::HasSubstr;

// Returns options for `ranks` ranks: fewer sizes if they share a GPU.
ConformanceOptions OptionsFor(int ranks) {
  ConformanceOptions options;
  options.any_order = true;
  if (ShareGpus(ranks)) {
    options.sizes = {0, 7, 1000};
    options.large_sizes = {50001};
  }
  return options;
}

TEST_F(NcclTest, EveryOperation) {
  for (const int ranks : {1, 2, 4}) {
    for (const bool registered : {true, false}) {
      ExpectOk(RunRanks(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
        ASSIGN_OR_RETURN(TestRank self, MakeRank(rank, ranks, exchange));
        constexpr int64_t kBytes = int64_t{16} << 20;
        char* memory = nullptr;
        if (registered) {
          ASSIGN_OR_RETURN(memory, self.device->Allocate(kBytes));
        }
        const auto mirror = Mirror(std::move(self.world), memory, kBytes);
        ConformanceOptions options = OptionsFor(ranks);
        if (!ShareGpus(ranks)) options.sizes = {0, 1, 7, 64, 1000, 4097};
        if (ranks == 4) options.dtypes = {DType::kF32, DType::kBF16, DType::kU8};
        if (ranks == 4 && ShareGpus(ranks)) options.dtypes = {DType::kF32};
        return CheckOperations(*mirror, options);
      }));
    }
  }
}

TEST_F(NcclTest, WithoutChecks) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(TestRank self, MakeRank(rank, 2, exchange, {.check = false}));
    const auto mirror = Mirror(std::move(self.world), nullptr, 0);
    ConformanceOptions options = OptionsFor(2);
    options.dtypes = {DType::kI64, DType::kF16};
    return CheckOperations(*mirror, options);
  }));
}

TEST_F(NcclTest, GroupsOfAMesh) {
  constexpr int kRanks = 4;  // [2, 2]
  ExpectOk(RunRanks(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(TestRank self, MakeRank(rank, kRanks, exchange));
    constexpr int64_t kBytes = int64_t{16} << 20;
    ASSIGN_OR_RETURN(char* const memory, self.device->Allocate(kBytes));
    const auto world = Mirror(std::move(self.world), memory, kBytes);
    std::vector<std::unique_ptr<Communicator>> groups;
    std::vector<Communicator*> pointers = {world.get()};
    for (const int axis : {1, 2}) {
      std::vector<int> colors(kRanks);
      for (int r = 0; r < kRanks; ++r) colors[r] = r & ~axis;
      ASSIGN_OR_RETURN(auto group, world->Split(absl::StrCat("axis", axis), colors));
      ConformanceOptions options = OptionsFor(kRanks);
      options.sizes = {0, 3, 5000};
      options.dtypes = {DType::kF32};
      RETURN_IF_ERROR(CheckOperations(*group, options));
      pointers.push_back(group.get());
      groups.push_back(std::move(group));
    }
    const int operations = ShareGpus(kRanks) ? 60 : 300;
    return CheckOverlappingGroups(pointers, operations, 5, /*delays=*/true, /*any_order=*/true);
  }));
}

TEST_F(NcclTest, GroupsOfOneAndOfNone) {
  ExpectOk(RunRanks(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(TestRank self, MakeRank(rank, 3, exchange));
    const auto world = Mirror(std::move(self.world), nullptr, 0);
    ASSIGN_OR_RETURN(const auto pair, world->Split("pair", {0, -1, 0}));
    if ((pair == nullptr) != (rank == 1)) return absl::InternalError("another group");
    if (pair != nullptr) RETURN_IF_ERROR(pair->Wait(pair->Barrier()));
    ASSIGN_OR_RETURN(const auto alone, world->Split("alone", {0, 1, 2}));
    ConformanceOptions options = OptionsFor(3);
    options.dtypes = {DType::kF32};
    RETURN_IF_ERROR(CheckOperations(*alone, options));
    return world->Wait(world->Barrier());
  }));
}

TEST_F(NcclTest, ThreadsUseTheirGroupsAtOnce) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    constexpr int64_t kBytes = int64_t{4} << 20;
    std::vector<std::unique_ptr<Communicator>> groups;
    for (int g = 0; g < 3; ++g) {
      ASSIGN_OR_RETURN(auto group, self.world->Split(absl::StrCat("group", g), {0, 0}));
      ASSIGN_OR_RETURN(char* const memory, self.device->Allocate(kBytes));
      groups.push_back(Mirror(std::move(group), memory, kBytes));
    }
    std::vector<absl::Status> results(groups.size());
    std::vector<std::thread> threads;
    for (size_t g = 0; g < groups.size(); ++g) {
      threads.emplace_back([&, g] {
        ConformanceOptions options = OptionsFor(2);
        options.dtypes = {DType::kF32};
        results[g] = CheckOperations(*groups[g], options);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : results) RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }));
}

TEST_F(NcclTest, ABrokenGroupBreaksNoOther) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    ASSIGN_OR_RETURN(const auto group, self.world->Split("group", {0, 0}));
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(10)));
    const absl::Status status = group->Wait(group->AllReduce(data, data, 9 + rank, DType::kF32));
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the ranks of group 'group' disagree on operation 1"));
    if (group->Split("none", {0, 0}).ok()) return absl::InternalError("it went on");
    ASSIGN_OR_RETURN(const auto other, self.world->Split("other", {0, 0}));
    RETURN_IF_ERROR(other->Wait(other->AllReduce(data, data, 9, DType::kF32)));
    return self.world->Wait(self.world->Barrier());
  }));
}

// Each rank waits for its messages in a different order than it sends them.
TEST_F(NcclTest, MessagesDoNotWaitForEachOther) {
  constexpr int64_t kCount = 1 << 20;
  ExpectOk(RunRanks(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 3, exchange));
    Communicator& world = *self.world;
    std::vector<float> values(kCount, static_cast<float>(rank));
    ASSIGN_OR_RETURN(float* const mine, OnGpu(*self.device, values));
    float* theirs[3] = {};
    std::vector<Ticket> tickets;
    for (int k = 0; k < 2; ++k) {
      const int to = (rank + 1 + k) % 3, from = (rank + 1 + k) % 3;
      ASSIGN_OR_RETURN(theirs[from], OnGpu(*self.device, values));
      if (rank != 1) tickets.push_back(world.Send(mine, kCount, DType::kF32, to));
      tickets.push_back(world.Receive(theirs[from], kCount, DType::kF32, from));
      if (rank == 1) tickets.push_back(world.Send(mine, kCount, DType::kF32, to));
    }
    RETURN_IF_ERROR(world.Wait(world.Barrier()));
    for (const Ticket& ticket : tickets) RETURN_IF_ERROR(world.Wait(ticket));
    for (int r = 0; r < 3; ++r) {
      if (r == rank) continue;
      if (ValueAt(theirs[r]) != static_cast<float>(r) ||
          ValueAt(theirs[r] + kCount - 1) != static_cast<float>(r)) {
        return absl::InternalError("another message");
      }
    }
    return absl::OkStatus();
  }));
}

// A copy on a stream, an all-reduce, and a copy back on the stream: the host waits for the last
// only.
TEST_F(NcclTest, OperationsAreOrderedWithAStream) {
  constexpr int64_t kCount = 1 << 20;
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    Communicator& world = *self.world;
    auto& streams = dynamic_cast<StreamOrder&>(world);
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    std::vector<float> values(kCount);
    ASSIGN_OR_RETURN(float* const first, OnGpu(*self.device, values));
    ASSIGN_OR_RETURN(float* const second, OnGpu(*self.device, values));
    constexpr size_t kBytes = kCount * sizeof(float);
    std::vector<Ticket> tickets;
    for (int step = 1; step <= 20; ++step) {
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      values.assign(kCount, static_cast<float>(step * (rank + 1)));
      EXPECT_EQ(cudaMemcpyAsync(first, values.data(), kBytes, cudaMemcpyDefault, stream),
                cudaSuccess);
      RETURN_IF_ERROR(streams.StartAfter(stream));
      tickets.push_back(world.AllReduce(first, second, kCount, DType::kF32));
      RETURN_IF_ERROR(streams.LetWait(stream, tickets.back()));
      EXPECT_EQ(cudaMemcpyAsync(first, second, kBytes, cudaMemcpyDefault, stream), cudaSuccess);
      EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      if (ValueAt(first + kCount - 1) != static_cast<float>(3 * step)) {
        return absl::InternalError(absl::StrCat("step ", step, " is wrong"));
      }
    }
    for (const Ticket& ticket : tickets) RETURN_IF_ERROR(world.Wait(ticket));
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    return world.Wait(world.Barrier());
  }));
}

// Operations advance without a call of Test or Wait.
TEST_F(NcclTest, OperationsEndByThemselves) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1000, 1)));
    RETURN_IF_ERROR(world.Wait(world.Barrier()));
    std::vector<Ticket> tickets;
    for (int k = 0; k < 100; ++k) tickets.push_back(world.AllReduce(data, data, 1, DType::kF32));
    for (int k = 0; k < 1000 && !world.HasEnded(tickets.back()); ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (!world.HasEnded(tickets.back())) return absl::InternalError("it did not move on");
    return world.Wait(tickets.back());
  }));
}

TEST_F(NcclTest, BytesAreThoseOfARing) {
  constexpr int kRanks = 3;
  ExpectOk(RunRanks(kRanks, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, kRanks, exchange));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(float* const a, OnGpu(*self.device, std::vector<float>(4000)));
    ASSIGN_OR_RETURN(float* const b, OnGpu(*self.device, std::vector<float>(4000)));
    constexpr int64_t kCount = 1000, kPart = 400;  // 400, 400 and 200
    const int64_t own = rank == 2 ? 200 : 400;
    RETURN_IF_ERROR(world.Wait(world.AllReduce(a, a, kCount, DType::kF32)));
    RETURN_IF_ERROR(world.Wait(world.ReduceScatter(a, b, kCount, kPart, DType::kF32)));
    RETURN_IF_ERROR(world.Wait(world.AllGather(a, b, kCount, kPart, DType::kF32)));
    RETURN_IF_ERROR(world.Wait(world.AllToAll(a, b, kPart, DType::kF32)));
    RETURN_IF_ERROR(world.Wait(world.Broadcast(a, b, kCount, DType::kF32, 0)));
    const auto expect = [&](Operation operation, int64_t elements) {
      EXPECT_EQ(world.traffic()[static_cast<size_t>(operation)].bytes_sent, elements * 4)
          << OperationName(operation) << " of rank " << rank;
    };
    const int64_t share = rank == 2 ? 1000 - 2 * 384 : 384;
    expect(Operation::kAllReduce, kCount - share + 2 * share);
    expect(Operation::kReduceScatter, kCount - own);
    expect(Operation::kAllGather, 2 * own);
    expect(Operation::kAllToAll, 2 * kPart);
    expect(Operation::kBroadcast, rank == 2 ? 0 : kCount);
    return absl::OkStatus();
  }));
}

#else

TEST(NcclTest, SaysThatThereIsNoCuda) {
  EXPECT_EQ(Device::Create(nullptr, {}).status().message(),
            "the backend nccl needs CUDA, and this build has no CUDA");
  GTEST_SKIP() << "built without a CUDA toolkit";
}

#endif

}  // namespace
}  // namespace tessera::comm::nccl
