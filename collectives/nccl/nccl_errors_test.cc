// Ranks on GPUs: requests that disagree or are refused, and time-outs. Built as nccl_test.cc is.
#ifdef TESSERA_CUDA

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "collectives/nccl/testing/test_ranks.h"
#include "collectives/testing/disturbed.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::nccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using NcclErrorsTest = NcclTest;

TEST_F(NcclErrorsTest, RanksThatDisagreeGetAllRequests) {
  constexpr int64_t kCount = 60;
  for (int difference = 0; difference < 6; difference += ShareGpus(3) ? 2 : 1) {
    std::string other;
    const auto results = RunRanks(3, [&](int rank, const Exchange& exchange) -> absl::Status {
      ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 3, exchange));
      Communicator& world = *self.world;
      ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1000)));
      Request request = {.operation = Operation::kReduceScatter,
                         .input = data,
                         .output = data + 500,
                         .count = kCount,
                         .part = 20};
      if (rank == 1) {
        if (difference == 0) request.count = 59;
        if (difference == 1) request.part = 30;
        if (difference == 2) request.dtype = DType::kI32;
        if (difference == 3) request.reduction = Reduction::kMax;
        if (difference == 4) request.operation = Operation::kAllReduce;
        if (difference == 5) request = {};
      }
      RETURN_IF_ERROR(world.Wait(world.Barrier()));
      absl::Status status = world.Wait(world.Issue(request));
      // The group stays broken.
      if (status.ok() || world.Wait(world.Barrier()) != status) {
        return absl::InternalError("it went on");
      }
      return status;
    });
    for (const absl::Status& status : results) {
      EXPECT_THAT(
          std::string(status.message()),
          AllOf(HasSubstr("the ranks of group 'world' disagree on operation 2: rank 0 "
                          "requests reduce-scatter of 60 f32 in parts of 20 (sum), rank 1 "
                          "requests "),
                HasSubstr("rank 2 requests reduce-scatter of 60 f32 in parts of 20 (sum)")));
    }
  }
}

TEST_F(NcclErrorsTest, ASenderAndAReceiverMayDisagree) {
  const auto results = RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1000)));
    if (rank == 1) return world.Wait(world.Receive(data, 4, DType::kF32, 0));
    const absl::Status sent = world.Wait(world.Send(data, 3, DType::kF32, 1));
    return sent.ok() ? world.Wait(world.Barrier()) : sent;
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("rank 0 requests send of 3 f32 to rank 1"),
                      HasSubstr("rank 1 requests receive of 4 f32 from rank 0")));
  }
}

TEST_F(NcclErrorsTest, MemoryOfTheCpuIsRefused) {
  const auto results = RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(4)));
    std::vector<float> on_cpu(4);
    return world.Wait(world.AllReduce(data, rank == 1 ? on_cpu.data() : data, 4, DType::kF32));
  });
  EXPECT_EQ(results[1].message(), "all-reduce of 4 f32 (sum): the output is not in GPU memory");
  EXPECT_THAT(
      std::string(results[0].message()),
      AllOf(HasSubstr("rank 0 of 2 of group 'world', in all-reduce of 4 f32 (sum) after 0 "
                      "collectives: rank 1 (process "),
            HasSubstr("aborted: all-reduce of 4 f32 (sum): the output is not in GPU memory")));
}

TEST_F(NcclErrorsTest, AFaultCanBeInjected) {
  const auto results = RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(TestRank self, MakeRank(rank, 2, exchange));
    if (rank == 1) self.world = WithFault(std::move(self.world), {.operation = 2, .fails = true});
    RETURN_IF_ERROR(self.world->Wait(self.world->Barrier()));
    return self.world->Wait(self.world->Barrier());
  });
  EXPECT_EQ(results[1].message(), "barrier: injected fault");
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("aborted: barrier: injected fault"));
}

// Rank 0 waits at the same time in a barrier of one group and in a receive of another.
TEST_F(NcclErrorsTest, NoRankWaitsLongerThanTheTimeOut) {
  const double timeout = ShortTimeout(2);
  for (const bool check : {true, false}) {
    const auto results = RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
      const DeviceOptions options = {.timeout_seconds = timeout, .check = check};
      ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange, options));
      Communicator& world = *self.world;
      ASSIGN_OR_RETURN(const auto other, world.Split("other", {0, 0}));
      ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1)));
      RETURN_IF_ERROR(world.Wait(world.Barrier()));
      absl::Status barrier, receive;
      const auto begin = std::chrono::steady_clock::now();
      if (rank == 0) {  // rank 1 issues nothing
        const Ticket tickets[] = {world.Barrier(), other->Receive(data, 1, DType::kF32, 1)};
        barrier = world.Wait(tickets[0]);
        receive = other->Wait(tickets[1]);
      }
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
      RETURN_IF_ERROR(exchange("rank 0 has waited", "").status());
      if (rank == 1) return absl::OkStatus();
      if (waited.count() > timeout + kAbortSeconds) return absl::InternalError("it took longer");
      return absl::UnknownError(absl::StrCat(barrier.message(), "\n", receive.message()));
    });
    const std::vector<std::string> errors = absl::StrSplit(results[0].message(), '\n');
    ASSERT_EQ(errors.size(), 2) << results[0];
    const std::string within = absl::StrCat("within ", timeout, " s");
    EXPECT_THAT(errors[0], AllOf(HasSubstr("rank 0 of 2 of group 'world', in barrier after 1 "
                                           "collectives: "),
                                 HasSubstr(within)))
        << check;
    EXPECT_THAT(errors[1], AllOf(HasSubstr("rank 0 of 2 of group 'other', in receive of 1 f32 from "
                                           "rank 1 after 0 messages: "),
                                 HasSubstr(within)))
        << check;
    EXPECT_TRUE(results[1].ok()) << results[1];
  }
}

TEST_F(NcclErrorsTest, AGpuThatIsNotThereIsAnError) {
  const auto results = RunRanks(1, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const auto network, tcp::Network::Create(rank, 1, exchange, {}));
    ASSIGN_OR_RETURN(const auto control, network->World());
    return Device::Create(control.get(), {.gpu = -1}).status();
  });
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("there is no GPU -1: this process"));
}

}  // namespace
}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA
