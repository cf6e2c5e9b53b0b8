// The communicators of the fake NCCL (fake_nccl.cc), and their kernels (fake_kernels.cc).
#ifndef TESSERA_COLLECTIVES_NCCL_TESTING_FAKE_NCCL_H_
#define TESSERA_COLLECTIVES_NCCL_TESTING_FAKE_NCCL_H_

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collectives/nccl/testing/fake_gpu.h"

namespace tessera::comm::nccl {

enum class FakeKind {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kReduce,
  kBroadcast,
  kSend,
  kReceive
};

struct FakeCall {
  FakeKind kind;
  const void* input;
  void* output;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  int peer;
};

// The state that the ranks of a communicator share.
struct FakeClique {
  struct Round {
    std::map<int, const std::vector<FakeCall>*> calls;  // by rank
    int computed = 0;
  };
  struct Division {
    std::map<int, int> colors;  // by rank
    std::map<int, std::shared_ptr<FakeClique>> children;
  };
  explicit FakeClique(int size) : size(size) {}
  const int size;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::map<uint64_t, Round> rounds;
  std::map<uint64_t, Division> divisions;
};

}  // namespace tessera::comm::nccl

struct ncclComm {
  std::shared_ptr<tessera::comm::nccl::FakeClique> clique;
  int rank = 0, gpu = 0;
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::atomic<bool> aborted{false};
  std::atomic<int> running{0};
  uint64_t rounds = 0, divisions = 0;
  int registered = 0;
  std::string last_error;
  std::vector<std::thread> threads;

  // Waits, with the clique's mutex held, until `done` returns true or the communicator is aborted.
  // Returns whether `done` does.
  bool Await(std::unique_lock<std::mutex>& lock, const std::function<bool()>& done) {
    while (!done() && !aborted) clique->changed.wait_for(lock, std::chrono::milliseconds(1));
    return done();
  }
  void JoinThreads() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }
  void Join() {
    JoinThreads();
    while (running > 0) std::this_thread::sleep_for(tessera::comm::nccl::kFakeTick);
  }
  void Execute(uint64_t number, const std::vector<tessera::comm::nccl::FakeCall>& calls);
  bool Matches(const tessera::comm::nccl::FakeClique::Round& round,
               const std::vector<tessera::comm::nccl::FakeCall>& calls) const;
  std::string Compute(const tessera::comm::nccl::FakeClique::Round& round, size_t index,
                      const tessera::comm::nccl::FakeCall& call) const;
};

#endif  // TESSERA_COLLECTIVES_NCCL_TESTING_FAKE_NCCL_H_
