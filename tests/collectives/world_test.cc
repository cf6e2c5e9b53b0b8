// Runs one program on every World, with ranks as threads, and as processes over each CPU backend,
// and checks that all give the same bytes.
#include "collectives/world.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "collectives/connected_world.h"
#include "collectives/fake/fake.h"
#include "collectives/testing/connect_process.h"
#include "collectives/testing/ranks.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"

namespace tessera::comm {
namespace {

constexpr int kRanks = 4;
constexpr int64_t kPart = 5000;  // elements of each rank's part of a buffer
constexpr int64_t kCount = kRanks * kPart - 3;

// Sums values of all ranks, in parts and at once, in the world and in a group of half of it, and
// sends messages around a ring. Appends all bytes of each result to *results.
absl::Status Communicate(World& world, Communicator& half, char* memory, std::string* results) {
  Communicator& all = world.communicator();
  const int rank = world.rank();
  constexpr int64_t kBytes = kCount * sizeof(float);
  float* const input = reinterpret_cast<float*>(memory);
  float* const output = input + kRanks * kPart;
  std::vector<float> values(kCount);
  for (int64_t i = 0; i < kCount; ++i) values[i] = 1.0f / static_cast<float>(3 + i + 7 * rank);
  RETURN_IF_ERROR(world.Copy(input, values.data(), kBytes));
  const auto add_result = [&](Communicator& group, Ticket ticket) -> absl::Status {
    RETURN_IF_ERROR(group.Wait(ticket));
    std::string bytes(kBytes, '\0');
    RETURN_IF_ERROR(world.Copy(bytes.data(), output, kBytes));
    results->append(bytes);
    return absl::OkStatus();
  };
  const Part own = PartOf(kCount, kPart, rank);
  RETURN_IF_ERROR(
      add_result(all, all.ReduceScatter(input, output + own.begin, kCount, kPart, DType::kF32)));
  RETURN_IF_ERROR(
      add_result(all, all.AllGather(output + own.begin, output, kCount, kPart, DType::kF32)));
  RETURN_IF_ERROR(add_result(half, half.AllReduce(input, output, kCount, DType::kF32)));
  const int next = (rank + 1) % kRanks, previous = (rank + kRanks - 1) % kRanks;
  const std::vector<PendingOperation> messages = {
      {&all, all.Send(input, kCount, DType::kF32, next)},
      {&all, all.Receive(output, kCount, DType::kF32, previous)}};
  const size_t first = WaitAny(messages);
  RETURN_IF_ERROR(all.Wait(messages[first].ticket));
  RETURN_IF_ERROR(all.Wait(messages[0].ticket));
  return add_result(all, messages[1].ticket);
}

// Makes each rank request a different operation on a group; all ranks get an error.
absl::Status Disagree(World& world) {
  ASSIGN_OR_RETURN(const auto group,
                   world.communicator().Split("quarrel", std::vector<int>(kRanks, 0)));
  int64_t data = 0;
  const absl::Status status =
      group->Wait(group->Broadcast(&data, &data, 1, DType::kI64, world.rank()));
  const bool is_named =
      absl::StrContains(status.message(), "the ranks of group 'quarrel' disagree on operation 1: ");
  return is_named ? absl::OkStatus() : absl::InternalError(status.ToString());
}

absl::Status Drive(World& world, std::string* results) {
  if (world.size() != kRanks) return absl::InternalError("another number of ranks");
  std::vector<int> halves(kRanks);
  for (int r = 0; r < kRanks; ++r) halves[r] = r / 2;
  ASSIGN_OR_RETURN(const auto half, world.communicator().Split("half", halves));
  ASSIGN_OR_RETURN(char* const memory, world.Allocate(2 * kRanks * kPart * sizeof(float)));
  RETURN_IF_ERROR(Communicate(world, *half, memory, results));
  RETURN_IF_ERROR(world.Free(memory));
  RETURN_IF_ERROR(Disagree(world));
  const absl::Status barrier = world.cpu_communicator().Wait(world.cpu_communicator().Barrier());
  RETURN_IF_ERROR(barrier);
  return world.Leave();
}

// Returns the results of each rank, with ranks as threads.
std::vector<std::string> ResultsOfThreads(uint64_t seed) {
  std::vector<std::string> results(kRanks);
  const auto statuses = RunFake({.ranks = kRanks, .seed = seed},
                                [&](World& world) { return Drive(world, &results[world.rank()]); });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
  return results;
}

TEST(WorldTest, ThreadsAndProcessesGiveTheSameResults) {
  const std::vector<std::string> expected = ResultsOfThreads(0);
  EXPECT_EQ(ResultsOfThreads(1), expected);
  for (const char* backend : {"shm", "tcp", "hierarchical"}) {
    WorldOptions options;
    options.backend = backend;
    if (options.backend == "hierarchical") options.hosts = {"a", "a", "b", "b"};
    const std::string job = absl::StrCat("world_test-", getpid(), "-", backend);
    const auto statuses =
        RunProcesses(kRanks, [&](int rank, const Exchange& /*exchange*/) -> absl::Status {
          ASSIGN_OR_RETURN(const auto world, ConnectProcess(rank, kRanks, job, options));
          if (world->backend() != backend) return absl::InternalError("another backend");
          std::string results;
          RETURN_IF_ERROR(Drive(*world, &results));
          return results == expected[rank] ? absl::OkStatus()
                                           : absl::InternalError("other results than of threads");
        });
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(status.ok()) << backend << ": " << status;
  }
}

// Regression: ranks on another host had their memory, and waited for those that had an error.
TEST(WorldTest, ALackOfMemoryOnOneRankIsReportedOnAllRanks) {
  constexpr int64_t kTooMuch = int64_t{1} << 46;
  for (const char* backend : {"shm", "tcp", "hierarchical"}) {
    WorldOptions options;
    options.backend = backend;
    if (options.backend == "hierarchical") options.hosts = {"a", "a", "b", "b"};
    const std::string job = absl::StrCat("world_test-", getpid(), "-lack-", backend);
    const auto statuses =
        RunProcesses(kRanks, [&](int rank, const Exchange& /*exchange*/) -> absl::Status {
          ASSIGN_OR_RETURN(const auto world, ConnectProcess(rank, kRanks, job, options));
          const absl::Status status = world->Allocate(rank == 3 ? kTooMuch : 1000).status();
          if (!absl::IsResourceExhausted(status) ||
              !absl::StartsWith(status.message(),
                                absl::StrCat("rank 3: there are no ", kTooMuch))) {
            return absl::InternalError(status.ToString());
          }
          // All ranks go on.
          std::string results;
          return Drive(*world, &results);
        });
    for (const absl::Status& status : statuses)
      EXPECT_TRUE(status.ok()) << backend << ": " << status;
  }
}

// Regression: memory that the system grants without having it was written, and a rank was killed.
TEST(WorldTest, MemoryOfARankOnItsOwnIsComparedWithWhatIsAvailable) {
  WorldOptions options;
  options.backend = "tcp";
  const std::string job = absl::StrCat("world_test-", getpid(), "-available");
  const auto statuses =
      RunProcesses(kRanks, [&](int rank, const Exchange& /*exchange*/) -> absl::Status {
        ASSIGN_OR_RETURN(const auto world, ConnectProcess(rank, kRanks, job, options));
        const absl::Status status = world->Allocate(int64_t{1} << 46).status();
        RETURN_IF_ERROR(world->Leave());
        return absl::StrContains(status.message(), " are available)")
                   ? absl::OkStatus()
                   : absl::InternalError(status.ToString());
      });
  for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace tessera::comm
