// Checks the queue of operations on every CPU backend: any number in flight, and any thread that
// waits.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/collectives/backends.h"

namespace tessera::comm {
namespace {

using ::testing::HasSubstr;

class QueueTest : public testing::TestWithParam<Backend> {
 protected:
  static std::vector<absl::Status> Run(int ranks,
                                       const std::function<absl::Status(Rank& self)>& body) {
    return RunThreads(ranks, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(Rank self, GetParam().make(rank, ranks, exchange));
      return body(self);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, QueueTest,
                         testing::Values(Backend{"Shm", OnShm}, Backend{"Tcp", OnTcp},
                                         Backend{"Hierarchical", OnHierarchical}),
                         [](const auto& info) { return info.param.name; });

absl::StatusOr<std::unique_ptr<Communicator>> Again(Communicator& world, const char* name) {
  return world.Split(name, std::vector<int>(world.size(), 0));
}

// Regression: the 65th operation in flight blocked Issue until another rank arrived, so that two
// groups used in opposite order ended in a time-out.
TEST_P(QueueTest, TwoHundredOperationsInFlightOnTwoGroupsInOppositeOrder) {
  constexpr int kOperations = 200;
  ExpectOk(Run(4, [&](Rank& self) -> absl::Status {
    ASSIGN_OR_RETURN(const auto a, Again(*self.world, "a"));
    ASSIGN_OR_RETURN(const auto b, Again(*self.world, "b"));
    std::vector<std::vector<int64_t>> values(2, std::vector<int64_t>(kOperations, 1));
    std::vector<PendingOperation> operations;
    for (const int step : {0, 1}) {
      const int which = (step + self.world->rank()) % 2;
      Communicator& group = which == 0 ? *a : *b;
      for (int64_t& value : values[which]) {
        operations.push_back({&group, group.AllReduce(&value, &value, 1, DType::kI64)});
      }
    }
    for (const auto& [group, ticket] : operations) RETURN_IF_ERROR(group->Wait(ticket));
    for (const auto& each : values) {
      if (std::count(each.begin(), each.end(), 4) != kOperations) {
        return absl::InternalError("a sum is wrong");
      }
    }
    return absl::OkStatus();
  }));
}

// Uses a group as communicator.h permits; ThreadSanitizer checks that there is no data race.
TEST_P(QueueTest, OneThreadIssuesWhileOthersWaitAndTest) {
  constexpr int kOperations = 300;
  ExpectOk(Run(4, [&](Rank& self) -> absl::Status {
    Communicator& world = *self.world;
    std::vector<std::vector<float>> data(kOperations);
    std::vector<Ticket> tickets(kOperations);
    std::atomic<int> issued = 0;
    std::thread issuer([&] {
      for (int k = 0; k < kOperations; ++k) {
        data[k].assign(k % 50 == 0 ? 20'000 : 5, 1);
        tickets[k] = world.AllReduce(data[k].data(), data[k].data(),
                                     static_cast<int64_t>(data[k].size()), DType::kF32);
        issued.store(k + 1, std::memory_order_release);
      }
    });
    std::vector<absl::Status> results(2);
    const auto finish = [&](int first, bool tests) -> absl::Status {
      for (int k = first; k < kOperations; k += 2) {
        while (issued.load(std::memory_order_acquire) <= k) std::this_thread::yield();
        while (tests && !world.Test(tickets[k])) std::this_thread::yield();
        RETURN_IF_ERROR(world.Wait(tickets[k]));
        for (const float value : data[k]) {
          if (value != 4) return absl::InternalError(absl::StrCat("sum ", k, " is ", value));
        }
      }
      return absl::OkStatus();
    };
    std::thread tester([&] { results[1] = finish(1, true); });
    results[0] = finish(0, false);
    tester.join();
    issuer.join();
    const Traffic traffic = world.traffic();
    if (traffic[static_cast<size_t>(Operation::kAllReduce)].calls < kOperations) {
      return absl::InternalError("calls are missing");
    }
    return results[0].ok() ? results[1] : results[0];
  }));
}

TEST_P(QueueTest, WaitAnyReturnsTheOneThatHasEnded) {
  ExpectOk(Run(4, [&](Rank& self) -> absl::Status {
    ASSIGN_OR_RETURN(const auto other, Again(*self.world, "other"));
    Communicator& world = *self.world;
    constexpr int64_t kCount = 30'000;
    if (world.rank() > 0) {
      // All-reduces of `other` first, and of the world after rank 0 has seen that.
      std::vector<float> data(kCount, 1);
      RETURN_IF_ERROR(other->Wait(other->AllReduce(data.data(), data.data(), kCount, DType::kF32)));
      if (world.rank() == 1)
        RETURN_IF_ERROR(world.Wait(world.Receive(data.data(), 1, DType::kF32, 0)));
      return world.Wait(world.AllReduce(data.data(), data.data(), kCount, DType::kF32));
    }
    std::vector<float> first(kCount, 1), second(kCount, 1);
    const std::vector<PendingOperation> operations = {
        {&world, world.AllReduce(first.data(), first.data(), kCount, DType::kF32)},
        {other.get(), other->AllReduce(second.data(), second.data(), kCount, DType::kF32)}};
    if (WaitAny(operations) != 1 || world.HasEnded(operations[0].ticket)) {
      return absl::InternalError("another one has ended");
    }
    RETURN_IF_ERROR(world.Wait(world.Send(first.data(), 1, DType::kF32, 1)));
    if (WaitAny({operations[0]}) != 0) return absl::InternalError("it has not ended");
    return world.Wait(operations[0].ticket);
  }));
}

// Regression: ranks that split in another order, or with other colors, got wrong sums.
TEST_P(QueueTest, RanksThatDisagreeOnASplitGetAnError) {
  for (const bool other_order : {true, false}) {
    const auto results = Run(4, [&](Rank& self) -> absl::Status {
      Communicator& world = *self.world;
      std::vector<int> rows = {0, 0, 1, 1}, columns = {0, 1, 0, 1};
      const bool differs = world.rank() == 2;
      const auto group = other_order && differs ? world.Split("columns", columns)
                                                : world.Split("rows", differs ? columns : rows);
      // The group itself stays usable.
      RETURN_IF_ERROR(world.Wait(world.Barrier()));
      return group.status();
    });
    for (const absl::Status& status : results) {
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(absl::StrCat(
                      "disagree on a split: rank 0 requests split 'rows' into colors 0,0,1,1, "
                      "rank 2 requests split '",
                      other_order ? "columns" : "rows", "' into colors 0,1,0,1")));
    }
  }
}

// Regression: the thread of shared memory kept sleeping although there was work, and a send took up
// to 100 ms longer.
TEST_P(QueueTest, ASendGoesOnBesideAReceiveThatIsWaitedForByNobody) {
  constexpr int64_t kBytes = 4 << 20;
  constexpr int kRounds = 20;     // until one is fast: other processes may need the cores
  constexpr double kSoon = 0.08;  // seconds; a missed wake-up costs 0.1 each time
  double best = 1e9;
  ExpectOk(Run(2, [&](Rank& self) -> absl::Status {
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(const auto other, Again(world, "other"));
    std::vector<char> data(kBytes);
    char was_soon = 0;
    for (int round = 0; round < kRounds && was_soon == 0; ++round) {
      if (world.rank() == 1) {
        RETURN_IF_ERROR(world.Wait(world.Barrier()));
        const auto begin = std::chrono::steady_clock::now();
        RETURN_IF_ERROR(other->Wait(other->Receive(data.data(), kBytes, DType::kU8, 0)));
        best = std::min(
            best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        was_soon = best < kSoon ? 1 : 0;
        RETURN_IF_ERROR(world.Wait(world.Send(&was_soon, 1, DType::kU8, 0)));
        continue;
      }
      const Ticket receive = world.Receive(&was_soon, 1, DType::kU8, 1);
      RETURN_IF_ERROR(world.Wait(world.Barrier()));
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      const Ticket send = other->Send(data.data(), kBytes, DType::kU8, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      RETURN_IF_ERROR(other->Wait(send));
      RETURN_IF_ERROR(world.Wait(receive));
    }
    return absl::OkStatus();
  }));
  EXPECT_LT(best, kSoon);
}

TEST_P(QueueTest, AbortWithoutAReasonIsAnError) {
  const auto results = Run(4, [&](Rank& self) -> absl::Status {
    if (self.world->rank() == 1) self.world->Abort(absl::OkStatus());
    return self.world->Wait(self.world->Barrier());
  });
  for (const absl::Status& status : results) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("no reason was given"));
  }
}

// Regression: over shared memory the operation took a round for each 256 KiB of a full part.
TEST_P(QueueTest, APartMayBeMuchLongerThanTheBuffer) {
  constexpr int64_t kCount = 10, kPart = int64_t{1} << 40;
  ExpectOk(Run(2, [&](Rank& self) -> absl::Status {
    Communicator& world = *self.world;
    // Rank 0's part is the full buffer, and rank 1's is empty.
    std::vector<float> input(kCount, 3), sum(kCount), output(kCount);
    RETURN_IF_ERROR(
        world.Wait(world.ReduceScatter(input.data(), sum.data(), kCount, kPart, DType::kF32)));
    RETURN_IF_ERROR(
        world.Wait(world.AllGather(sum.data(), output.data(), kCount, kPart, DType::kF32)));
    return output == std::vector<float>(kCount, 6) ? absl::OkStatus()
                                                   : absl::InternalError("a sum is wrong");
  }));
}

TEST_P(QueueTest, ACountWhoseBytesAreNoNumberIsAnError) {
  constexpr int64_t kCount = INT64_MAX / 4;
  constexpr DType kType = DType::kF64;
  char byte = 0;
  const std::vector<std::pair<const char*, std::function<Ticket(Communicator&)>>> uses = {
      {"all-reduce", [&](Communicator& g) { return g.AllReduce(&byte, &byte, kCount, kType); }},
      {"reduce-scatter",
       [&](Communicator& g) { return g.ReduceScatter(&byte, &byte, kCount, kCount / 2, kType); }},
      {"all-gather",
       [&](Communicator& g) { return g.AllGather(&byte, &byte, kCount, kCount / 2, kType); }},
      {"all-to-all", [&](Communicator& g) { return g.AllToAll(&byte, &byte, kCount / 2, kType); }},
      {"broadcast", [&](Communicator& g) { return g.Broadcast(&byte, &byte, kCount, kType, 0); }},
      {"message", [&](Communicator& g) {
         return g.rank() == 0 ? g.Send(&byte, kCount, kType, 1)
                              : g.Receive(&byte, kCount, kType, 0);
       }}};
  ExpectOk(Run(2, [&](Rank& self) -> absl::Status {
    for (const auto& [name, use] : uses) {
      ASSIGN_OR_RETURN(const auto group, Again(*self.world, name));
      const absl::Status status = group->Wait(use(*group));
      if (!absl::StrContains(status.message(), "the buffer is too large")) {
        return absl::InternalError(absl::StrCat(name, ": ", status.ToString()));
      }
    }
    return absl::OkStatus();
  }));
}

// Regression: it was not reported, and the other ranks waited for the time-out.
TEST_P(QueueTest, DestroyingAGroupWithOperationsInFlightIsReported) {
  const auto results = Run(4, [&](Rank& self) -> absl::Status {
    ASSIGN_OR_RETURN(auto group, Again(*self.world, "group"));
    std::vector<float> data(100'000);
    absl::Status status;
    if (self.world->rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const Ticket ticket = group->AllReduce(data.data(), data.data(), 100'000, DType::kF32);
    if (self.world->rank() != 1) status = group->Wait(ticket);
    group.reset();
    RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
    return status;
  });
  for (const int rank : {0, 2, 3}) {
    EXPECT_THAT(std::string(results[rank].message()),
                HasSubstr("'group' was destroyed with operations in flight"));
  }
}

}  // namespace
}  // namespace tessera::comm
