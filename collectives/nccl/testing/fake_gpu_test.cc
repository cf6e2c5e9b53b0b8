// Defects that only a fake GPU can show: calls from the wrong thread, launches that wait for each
// other, errors of NCCL at a chosen time, an older NCCL.
#ifdef TESSERA_CUDA

#include "collectives/nccl/testing/fake_gpu.h"

#include <sys/socket.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl/comm.h"
#include "collectives/nccl/testing/fake_nccl.h"
#include "collectives/nccl/testing/test_ranks.h"
#include "core/status/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::comm::nccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

class FakeGpuTest : public NcclTest {
 protected:
  void TearDown() override {
    Fake().nccl_version = NCCL_VERSION_CODE;
    Fake().launches_wait = false;
    Fake().on_unique_id = nullptr;
    for (std::atomic<bool>& hangs : Fake().hangs) hangs = false;
    Fake().async_error = ncclSuccess;
  }
};

// Time in which another thread takes a step that the test cannot see.
constexpr auto kStep = std::chrono::milliseconds(200);

absl::StatusOr<cudaStream_t> MakeStream() {
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"));
  return stream;
}

// The launch of the barrier waits for the kernel of the receive, whose send is never issued. An
// abort of the barrier's communicator waits for that launch, so the other abort must not come after
// it.
TEST_F(FakeGpuTest, AbortsDoNotWaitForEachOther) {
  const double timeout = ShortTimeout(2);
  const auto results = RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    const DeviceOptions options = {.timeout_seconds = timeout, .check = false};
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange, options));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1)));
    const auto message = [&] {
      return rank == 0 ? world.Receive(data, 1, DType::kF32, 1)
                       : world.Send(data, 1, DType::kF32, 0);
    };
    RETURN_IF_ERROR(world.Wait(message()));
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::duration<double>(5 * timeout));
      return absl::OkStatus();
    }
    message();
    while (Fake().kernels[0] == 0) std::this_thread::sleep_for(kFakeTick);
    Fake().launches_wait = true;
    const Clock::time_point begin = Clock::now();
    absl::Status status = world.Wait(world.Barrier());
    const Seconds waited = Clock::now() - begin;
    if (waited.count() > 4 * timeout) {
      Fake().launches_wait = false;
      return absl::InternalError(absl::StrCat("the aborts took ", waited.count(), " s"));
    }
    return status;
  });
  EXPECT_THAT(std::string(results[0].message()), HasSubstr("within 1 s"));
}

// The ranks wait in a broadcast on which all have agreed, and its root is gone. Returns their
// results.
std::vector<absl::Status> RunWithoutRoot(bool nccl_notices) {
  const DeviceOptions options = {.timeout_seconds = nccl_notices ? 60.0 : 2.0};
  return RunRanks(3, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 3, exchange, options));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1)));
    RETURN_IF_ERROR(world.Wait(world.Barrier()));
    Fake().hangs[rank] = rank != 1;
    RETURN_IF_ERROR(world.Wait(world.Broadcast(data, data, 1, DType::kF32, 1)));
    std::this_thread::sleep_for(kStep);  // until the others have agreed too
    if (nccl_notices) Fake().async_error = ncclRemoteError;
    std::this_thread::sleep_for(kStep);  // NCCL notices it before the control group
    return absl::OkStatus();
  });
}

// Regression: the others reported NCCL's error, each its own.
TEST_F(FakeGpuTest, ARankThatIsGoneIsNamedIfNcclNoticesIt) {
  const auto results = RunWithoutRoot(/*nccl_notices=*/true);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("rank 1 (process "), HasSubstr("has left; waiting in ")));
  }
}

TEST_F(FakeGpuTest, ARankThatIsGoneIsNamedAtTheTimeOut) {
  const auto results = RunWithoutRoot(/*nccl_notices=*/false);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(std::string(results[rank].message()),
                AllOf(HasSubstr("rank 1 (process "), HasSubstr("has left; waiting in ")));
  }
}

// Ends the TCP connections of this process: each rank takes the others for dead.
void EndConnections() {
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.ss_family == AF_INET) shutdown(descriptor, SHUT_RDWR);
  }
}

// The descriptors that a dead sender has sent ahead are not taken for signs of life.
TEST_F(FakeGpuTest, ADeadSenderIsNamedAfterAllAgreed) {
  const auto results = RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1)));
    Fake().hangs[rank] = rank == 0;
    if (rank == 0) return world.Wait(world.Receive(data, 1, DType::kF32, 1));
    for (int message = 0; message < 3; ++message) world.Send(data, 1, DType::kF32, 0);
    std::this_thread::sleep_for(kStep);  // until rank 0 has agreed on the first
    Fake().async_error = ncclRemoteError;
    std::this_thread::sleep_for(kStep);
    EndConnections();
    return world.Wait(kFailureTicket);
  });
  EXPECT_THAT(std::string(results[0].message()),
              AllOf(HasSubstr("in receive of 1 f32 from rank 1 after 0 messages: "),
                    HasSubstr("rank 1 (process "), HasSubstr("died; waiting in ")));
}

// Meanwhile rank 1 sends its first message, of which rank 0 expects nothing.
TEST_F(FakeGpuTest, AnErrorOfNcclIsReportedIfNoRankIsGone) {
  const auto results = RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1)));
    Fake().hangs[rank] = true;
    const Ticket sum = world.AllReduce(data, data, 1, DType::kF32);
    const Clock::time_point begin = Clock::now();
    if (rank == 1) {
      std::this_thread::sleep_for(kStep);
      Fake().async_error = ncclRemoteError;
      std::this_thread::sleep_for(kStep);
      world.Send(data, 1, DType::kF32, 0);
    }
    absl::Status status = world.Wait(sum);
    const Seconds waited = Clock::now() - begin;
    if (waited.count() > 4)
      return absl::InternalError(absl::StrCat("after ", waited.count(), " s"));
    return status;
  });
  for (const absl::Status& status : results) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("in all-reduce of 1 f32 (sum) after 0 collectives: "),
                      HasSubstr("NCCL fails: a fake error")));
  }
}

TEST_F(FakeGpuTest, ThreadsNeedNotChooseTheGpu) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1)));
    ASSIGN_OR_RETURN(const cudaStream_t stream, MakeStream());
    const auto in_thread = [](const std::function<absl::Status()>& body) {
      return std::async(std::launch::async, body).get();
    };
    Communicator& world = *self.world;
    auto& streams = dynamic_cast<StreamOrder&>(world);
    RETURN_IF_ERROR(in_thread([&] { return streams.StartAfter(stream); }));
    const Ticket ticket = world.AllReduce(data, data, 1, DType::kF32);
    RETURN_IF_ERROR(in_thread([&] { return streams.LetWait(stream, ticket); }));
    RETURN_IF_ERROR(in_thread([&] { return world.Wait(ticket); }));
    RETURN_IF_ERROR(in_thread([&]() -> absl::Status {
      return world.Split("pair", {0, 0}).status();
    }));
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    return world.Wait(world.Barrier());
  }));
}

// NCCL may need seconds to make an id. The device's mutex must not be held meanwhile.
TEST_F(FakeGpuTest, OtherGroupsGoOnWhileNcclMakesAnId) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    Communicator& world = *self.world;
    ASSIGN_OR_RETURN(const auto group, world.Split("group", {0, 0}));
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1)));
    const Ticket barrier = group->Barrier();
    RETURN_IF_ERROR(group->Wait(barrier));
    if (rank == 1) return world.Wait(world.Receive(data, 1, DType::kF32, 0));
    bool goes_on = false;
    std::thread other;
    Fake().on_unique_id = [&] {
      std::promise<void> done;
      std::future<void> is_done = done.get_future();
      other = std::thread([&group, barrier, done = std::move(done)]() mutable {
        static_cast<void>(group->Test(barrier));
        done.set_value();
      });
      goes_on = is_done.wait_for(std::chrono::seconds(2)) == std::future_status::ready;
    };
    const absl::Status status = world.Wait(world.Send(data, 1, DType::kF32, 1));
    if (other.joinable()) other.join();
    RETURN_IF_ERROR(status);
    return goes_on ? absl::OkStatus() : absl::InternalError("the other group waited");
  }));
}

// LetWait returns once the operation is on the GPU. Rank 1 issues its part only after that.
TEST_F(FakeGpuTest, LetWaitDoesNotWaitForPeers) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange, {.timeout_seconds = 20}));
    Communicator& world = *self.world;
    auto& streams = dynamic_cast<StreamOrder&>(world);
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1, 1)));
    ASSIGN_OR_RETURN(const cudaStream_t stream, MakeStream());
    float result = 0;
    if (rank == 1) RETURN_IF_ERROR(exchange("rank 0 has returned from LetWait", "").status());
    const Ticket ticket = world.AllReduce(data, data, 1, DType::kF32);
    RETURN_IF_ERROR(streams.LetWait(stream, ticket));
    EXPECT_EQ(cudaMemcpyAsync(&result, data, 4, cudaMemcpyDefault, stream), cudaSuccess);
    if (rank == 0) RETURN_IF_ERROR(exchange("rank 0 has returned from LetWait", "").status());
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(result, 2);
    return world.Wait(ticket);
  }));
}

// A stream runs operations in order, so the second is on the GPU before the first has ended.
TEST_F(FakeGpuTest, AnOperationIsLaunchedBeforeTheOneBeforeItEnds) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange, {.timeout_seconds = 20}));
    Communicator& world = *self.world;
    auto& streams = dynamic_cast<StreamOrder&>(world);
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1, 1)));
    ASSIGN_OR_RETURN(const cudaStream_t stream, MakeStream());
    if (rank == 1) RETURN_IF_ERROR(exchange("rank 0 has launched both", "").status());
    const Ticket first = world.AllReduce(data, data, 1, DType::kF32);
    const Ticket second = world.AllReduce(data, data, 1, DType::kF32);
    RETURN_IF_ERROR(streams.LetWait(stream, second));
    if (rank == 0) {
      EXPECT_FALSE(world.HasEnded(first));
      RETURN_IF_ERROR(exchange("rank 0 has launched both", "").status());
    }
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    EXPECT_EQ(ValueAt(data), 4);
    return world.Wait(second);
  }));
}

// Rank 1 issues each operation after rank 0 has seen the end of the one before it.
TEST_F(FakeGpuTest, WaitAnyWaitsForAGpuAndForTheCpu) {
  ExpectOk(RunRanks(2, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 2, exchange));
    ASSIGN_OR_RETURN(float* const data, OnGpu(*self.device, std::vector<float>(1, 1)));
    ASSIGN_OR_RETURN(const auto on_cpu, self.control->Split("cpu", {0, 0}));
    const auto issue_sum = [&] { return self.world->AllReduce(data, data, 1, DType::kF32); };
    if (rank == 1) {
      RETURN_IF_ERROR(on_cpu->Wait(on_cpu->Barrier()));
      RETURN_IF_ERROR(exchange("the barrier has ended", "").status());
      RETURN_IF_ERROR(self.world->Wait(issue_sum()));
      RETURN_IF_ERROR(exchange("the sum has ended", "").status());
      return on_cpu->Wait(on_cpu->Barrier());
    }
    const PendingOperation sum = {self.world.get(), issue_sum()};
    const PendingOperation first = {on_cpu.get(), on_cpu->Barrier()};
    EXPECT_EQ(WaitAny({sum, first}), 1);
    const PendingOperation second = {on_cpu.get(), on_cpu->Barrier()};
    RETURN_IF_ERROR(exchange("the barrier has ended", "").status());
    EXPECT_EQ(WaitAny({second, sum}), 1);
    RETURN_IF_ERROR(exchange("the sum has ended", "").status());
    return on_cpu->Wait(second.ticket);
  }));
}

TEST_F(FakeGpuTest, AStreamThatIsBeingCapturedIsRefused) {
  ExpectOk(RunRanks(1, [&](int rank, const Exchange& exchange) -> absl::Status {
    ASSIGN_OR_RETURN(const TestRank self, MakeRank(rank, 1, exchange));
    Communicator& world = *self.world;
    auto& streams = dynamic_cast<StreamOrder&>(world);
    ASSIGN_OR_RETURN(const cudaStream_t stream, MakeStream());
    const Ticket ticket = world.Barrier();
    stream->capturing = true;
    const absl::Status after = streams.StartAfter(stream);
    const absl::Status wait = streams.LetWait(stream, ticket);
    stream->capturing = false;
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    for (const absl::Status& status : {after, wait}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), HasSubstr("the stream is being captured"));
    }
    return world.Wait(ticket);
  }));
}

TEST_F(FakeGpuTest, AnOlderNcclIsRefused) {
  Fake().nccl_version = NCCL_VERSION(2, 21, 5);
  const auto results = RunRanks(1, [&](int rank, const Exchange& exchange) -> absl::Status {
    return MakeRank(rank, 1, exchange).status();
  });
  EXPECT_EQ(results[0].message(), "NCCL 2.21.5 is too old: this backend needs 2.22 or newer");
}

TEST_F(FakeGpuTest, AnErrorIsThatOfItsOwnCommunicator) {
  ncclComm comm;
  comm.last_error = "a peer is gone";
  EXPECT_EQ(NcclStatus(ncclInternalError, "NCCL fails", &comm).message(),
            "NCCL fails: a fake error (NCCL's last message: a peer is gone)");
}

// The first device of a process makes the choice, so each case is a process of its own.
TEST_F(FakeGpuTest, ModulesAreLoadedEagerlyUnlessTheUserChose) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto loading_after_opening = [] {
    const auto results = RunRanks(
        1, [](int rank, const Exchange& exchange) { return MakeRank(rank, 1, exchange).status(); });
    if (!results[0].ok()) return results[0].ToString();
    const char* const loading = getenv("CUDA_MODULE_LOADING");
    return std::string(loading == nullptr ? "not set" : loading);
  };
  const auto check = [&](const std::string& expected) {
    const std::string loading = loading_after_opening();
    std::fprintf(stderr, "CUDA_MODULE_LOADING is %s\n", loading.c_str());
    std::_Exit(loading == expected ? 0 : 1);
  };
  unsetenv("CUDA_MODULE_LOADING");
  EXPECT_EXIT(check("EAGER"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT((setenv("CUDA_MODULE_LOADING", "LAZY", 1), check("LAZY")), testing::ExitedWithCode(0),
              "");
}

}  // namespace
}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA
