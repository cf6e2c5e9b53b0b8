// CUDA's functions on the fake GPU (fake_gpu.h).
#ifdef TESSERA_CUDA

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "collectives/nccl/testing/fake_gpu.h"
#include "core/status/check.h"

namespace {

thread_local int current_gpu = 0;

// CPU memory that stands for GPU memory, by address.
struct Block {
  size_t size;
  int gpu;
};
std::mutex memory_mutex;
std::map<const char*, Block>& Memory() {
  static auto* const memory = new std::map<const char*, Block>;
  return *memory;
}

}  // namespace

namespace tessera::comm::nccl {

FakeGpus& Fake() {
  static auto* const gpus = new FakeGpus;
  return *gpus;
}
int CurrentFakeGpu() { return current_gpu; }

}  // namespace tessera::comm::nccl

struct CUevent_st {
  struct State {
    std::atomic<uint64_t> recorded{0}, done{0};
  };
  std::shared_ptr<State> state = std::make_shared<State>();
};

cudaError_t cudaGetDeviceCount(int* count) {
  *count = tessera::comm::nccl::kFakeGpus;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_gpu = device;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*error*/) { return "a fake error"; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int /*flags*/,
                                         int /*priority*/) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  stream->Drain();
  {
    const std::lock_guard<std::mutex> lock(stream->mutex);
    stream->stop = true;
  }
  stream->changed.notify_all();
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->Drain();
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int /*flags*/) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  TESSERA_CHECK(current_gpu == stream->gpu);
  const uint64_t number = event->state->recorded.fetch_add(1) + 1;
  stream->Put([state = event->state, number] { state->done = number; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->state->done == event->state->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int /*flags*/) {
  TESSERA_CHECK(current_gpu == stream->gpu);
  stream->Put([state = event->state, number = event->state->recorded.load()] {
    while (state->done < number) std::this_thread::sleep_for(tessera::comm::nccl::kFakeTick);
  });
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t size) {
  *data = std::malloc(size);
  const std::lock_guard<std::mutex> lock(memory_mutex);
  Memory()[static_cast<char*>(*data)] = {size, current_gpu};
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard<std::mutex> lock(memory_mutex);
  TESSERA_CHECK(Memory().erase(static_cast<char*>(data)) == 1);
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind /*kind*/) {
  std::memcpy(to, from, size);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  stream->Put([=] { std::memcpy(to, from, size); });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t size, cudaStream_t stream) {
  stream->Put([=] { std::memset(data, value, size); });
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  const std::lock_guard<std::mutex> lock(memory_mutex);
  const auto next = Memory().upper_bound(static_cast<const char*>(data));
  if (next == Memory().begin()) return cudaSuccess;
  const auto& [begin, block] = *std::prev(next);
  if (static_cast<const char*>(data) >= begin + block.size) return cudaSuccess;
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = block.gpu;
  return cudaSuccess;
}

#endif  // TESSERA_CUDA
