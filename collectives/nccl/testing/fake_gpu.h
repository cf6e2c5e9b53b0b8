// The streams of the fake GPU (fake_cuda.cc, fake_nccl.cc), and its settings for tests.
//
// The fake is the part of CUDA and NCCL that this backend uses, on a CPU: a program that links it
// needs no GPU. Ranks are threads of one process; a stream is a thread, a kernel is a function that
// waits for its peers. The fake reports the end of an operation as late as NCCL does, refuses what
// NCCL refuses, and waits for ever where NCCL would. It shows how this backend handles operations;
// it shows nothing about NCCL.
#ifndef TESSERA_COLLECTIVES_NCCL_TESTING_FAKE_GPU_H_
#define TESSERA_COLLECTIVES_NCCL_TESTING_FAKE_GPU_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace tessera::comm::nccl {

inline constexpr int kFakeGpus = 8;
inline constexpr auto kFakeTick = std::chrono::microseconds(50);

// The settings of the fake that a test may change, and its state that a test may read.
struct FakeGpus {
  std::atomic<int> nccl_version{NCCL_VERSION_CODE};
  // Makes a launch wait until no kernel runs on its GPU, as CUDA does while it loads a module.
  std::atomic<bool> launches_wait{false};
  std::function<void()> on_unique_id;  // called by ncclGetUniqueId
  // Kernels of these GPUs end only when their communicator is aborted, as if a peer's data never
  // came.
  std::atomic<bool> hangs[kFakeGpus] = {};
  std::atomic<ncclResult_t> async_error{ncclSuccess};  // of every communicator
  std::atomic<int> kernels[kFakeGpus] = {};            // running kernels, by GPU
};
FakeGpus& Fake();

// The calling thread's GPU.
int CurrentFakeGpu();

}  // namespace tessera::comm::nccl

// A stream: a thread that runs its tasks one after the other.
struct CUstream_st {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;
  bool busy = false, stop = false;
  const int gpu = tessera::comm::nccl::CurrentFakeGpu();
  std::atomic<bool> capturing{false};  // set by tests
  std::thread thread{[this] { Run(); }};

  void Put(std::function<void()> task) {
    const std::lock_guard<std::mutex> lock(mutex);
    tasks.push_back(std::move(task));
    changed.notify_all();
  }
  void Drain() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return tasks.empty() && !busy; });
  }
  void Run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return stop || !tasks.empty(); });
      if (tasks.empty()) return;
      const std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      busy = true;
      lock.unlock();
      task();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

#endif  // TESSERA_COLLECTIVES_NCCL_TESTING_FAKE_GPU_H_
