// Ranks of a test on the GPUs of this machine; on fake ones, as threads, with TESSERA_FAKE_GPU.
// Needs CUDA.
#ifndef TESSERA_COLLECTIVES_NCCL_TESTING_TEST_RANKS_H_
#define TESSERA_COLLECTIVES_NCCL_TESTING_TEST_RANKS_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "collectives/fake/fake.h"
#include "collectives/nccl/device.h"
#include "collectives/tcp/network.h"
#include "collectives/testing/ranks.h"
#include "core/status/status_macros.h"
#include "gtest/gtest.h"

namespace tessera::comm::nccl {

#ifdef TESSERA_FAKE_GPU

inline int Gpus() { return 8; }
inline bool ShareGpus(int /*ranks*/) { return false; }

// Returns a time-out within which ranks connect.
inline double ShortTimeout(int /*ranks*/) { return 1; }
// After the time-out, a wait returns within this time.
constexpr double kAbortSeconds = 1;

inline std::vector<absl::Status> RunRanks(int ranks, const RankBody& body) {
  return RunThreads(ranks, body);
}

#else

// Counts in a process of its own: a process cannot use CUDA if the one that forked it did.
inline int Gpus() {
  static const int gpus = [] {
    const auto results = RunProcesses(1, [](int /*rank*/, const Exchange& /*exchange*/) {
      int count = 0;
      if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
      return absl::UnknownError(absl::StrCat(count));
    });
    int count = 0;
    return absl::SimpleAtoi(results[0].message(), &count) ? count : 0;
  }();
  return gpus;
}

// Returns whether several ranks use one GPU. Their processes are time-sliced on it: a kernel that
// waits for a peer in another process may hold the GPU until its time slice is over, so operations
// take longer. Tests with many operations then run fewer of them.
inline bool ShareGpus(int ranks) { return ranks > Gpus(); }

// One H200 that ranks share connects two of them in less than 2 s.
inline double ShortTimeout(int ranks) { return ShareGpus(ranks) ? 4 : 10; }
constexpr double kAbortSeconds = 10;

inline std::vector<absl::Status> RunRanks(int ranks, const RankBody& body) {
  const bool share = ShareGpus(ranks);
  return RunProcesses(ranks, [&](int rank, const Exchange& exchange) {
    if (share) {
      // NCCL refuses two ranks on one GPU, unless they claim to be on different hosts.
      setenv("NCCL_HOSTID", absl::StrCat("host", rank).c_str(), 1);
      setenv("NCCL_NET", "Socket", 1);
      setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    }
    return body(rank, exchange);
  });
}

#endif

struct TestRank {
  std::unique_ptr<tcp::Network> network;
  std::unique_ptr<Communicator> control;
  std::unique_ptr<Device> device;
  std::unique_ptr<Communicator> world;
};

inline absl::StatusOr<TestRank> MakeRank(int rank, int ranks, const Exchange& exchange,
                                         DeviceOptions options = {}) {
  TestRank result;
  // A hang must be reported before tests/gpu/run ends the test.
  if (ShareGpus(ranks)) options.timeout_seconds = std::min(options.timeout_seconds, 20.0);
  tcp::NetworkOptions over_cpu;
  over_cpu.timeout_seconds = options.timeout_seconds;
  ASSIGN_OR_RETURN(result.network, tcp::Network::Create(rank, ranks, exchange, over_cpu));
  ASSIGN_OR_RETURN(result.control, result.network->World());
  options.gpu = rank % std::max(1, Gpus());
  cudaSetDevice(options.gpu);
  ASSIGN_OR_RETURN(result.device, Device::Create(result.control.get(), options));
  ASSIGN_OR_RETURN(result.world, result.device->World());
  return result;
}

class NcclTest : public testing::Test {
 protected:
  void SetUp() override {
    if (Gpus() == 0) GTEST_SKIP() << "no GPU on this machine";
  }
};

inline void ExpectOk(const std::vector<absl::Status>& results) {
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

// Memory of the GPU with values of the CPU.
inline absl::StatusOr<float*> OnGpu(Device& device, const std::vector<float>& values) {
  const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(float));
  ASSIGN_OR_RETURN(char* const data, device.Allocate(bytes));
  if (cudaMemcpy(data, values.data(), bytes, cudaMemcpyDefault) != cudaSuccess) {
    return absl::InternalError("cannot copy");
  }
  return reinterpret_cast<float*>(data);
}

inline float ValueAt(const float* on_gpu) {
  float value = 0;
  EXPECT_EQ(cudaMemcpy(&value, on_gpu, sizeof(value), cudaMemcpyDefault), cudaSuccess);
  return value;
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_TESTING_TEST_RANKS_H_
