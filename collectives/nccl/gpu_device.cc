// The Device. In a build without CUDA, creating it returns an error.
#ifdef TESSERA_CUDA

#include "collectives/nccl/gpu_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/group.h"
#include "core/status/check.h"
#include "core/status/status_macros.h"

namespace tessera::comm::nccl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::nanoseconds kShortestSleep = std::chrono::microseconds(50);
constexpr std::chrono::nanoseconds kLongestSleep = std::chrono::milliseconds(1);
constexpr int kSleepShare = 32;  // sleeps 1/32 of the time waited so far

constexpr auto kConnectTick = std::chrono::microseconds(200);

// Has CUDA load modules when it starts, unless CUDA_MODULE_LOADING says otherwise. CUDA's default
// is to load a module at the first launch of one of its kernels. The load waits for the kernels
// that run, such as NCCL's, which wait for peers, whose hosts may wait for their own loads: a
// deadlock. Has an effect before the process's first call of CUDA.
void LoadModulesEagerly() { setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/0); }

}  // namespace

void PollingEvents::CommitWait(std::chrono::nanoseconds at_most) {
  const std::chrono::nanoseconds waited = Clock::now() - since_.load();
  NoEvents::CommitWait(
      std::min(at_most, std::clamp(waited / kSleepShare, kShortestSleep, kLongestSleep)));
}

absl::Status GpuDevice::Open() {
  static std::once_flag once;
  std::call_once(once, LoadModulesEagerly);
  int gpus = 0;
  RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&gpus), "there is no GPU"));
  if (options_.gpu < 0 || gpus == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no GPU ", options_.gpu, ": this process sees ", gpus));
  }
  options_.gpu %= gpus;
  RETURN_IF_ERROR(CheckNcclVersion());
  UseGpu(options_.gpu);
  RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                             absl::StrCat("GPU ", options_.gpu, " cannot be used")));
  void* scratch = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&scratch, kScratchBytes), "no memory for barriers"));
  scratch_ = static_cast<char*>(scratch);
  return absl::OkStatus();
}

GpuDevice::~GpuDevice() {
  progress_.Stop();
  if (!may_free_) return;
  UseGpu(options_.gpu);
  for (cudaEvent_t event : unused_events_) cudaEventDestroy(event);
  for (const Region& region : memory_) ncclMemFree(region.begin);
  if (scratch_ != nullptr) cudaFree(scratch_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::StatusOr<std::unique_ptr<Communicator>> GpuDevice::World() {
  if (world_was_made_) {
    return absl::FailedPreconditionError("the group of all ranks was made before");
  }
  world_was_made_ = true;
  const int size = control_->size();
  ASSIGN_OR_RETURN(
      std::unique_ptr<Communicator> control,
      control_->Split(control_->name(), std::vector<int>(size, 0), Contents::kControl));
  Comm comm;
  if (size > 1) {
    ncclUniqueId id = {};
    if (control_->rank() == 0) {
      const absl::Status status =
          NcclStatus(ncclGetUniqueId(&id), "NCCL cannot be reached", nullptr);
      if (!status.ok()) control_->Abort(status);
    }
    ASSIGN_OR_RETURN(
        const std::vector<std::string> ids,
        ExchangeOver(control_)("nccl/id", absl::string_view(id.internal, sizeof(id.internal))));
    TESSERA_CHECK(ids[0].size() == sizeof(id.internal)) << ids[0].size();
    std::memcpy(id.internal, ids[0].data(), sizeof(id.internal));
    comm = std::make_shared<ncclComm_t>(nullptr);
    UseGpu(options_.gpu);
    ncclConfig_t config = Config();
    const ncclResult_t begun =
        ncclCommInitRankConfig(comm.get(), size, id, control_->rank(), &config);
    constexpr absl::string_view kWhat = "NCCL cannot connect the ranks";
    const absl::Status status = Await(kWhat, control_, [&]() -> absl::StatusOr<bool> {
      const bool has_begun = begun == ncclSuccess || begun == ncclInProgress;
      const ncclResult_t state = has_begun ? StateOf(comm) : begun;
      const absl::Status result = NcclStatus(state, kWhat, *comm);
      if (result.ok()) return state == ncclSuccess;
      control_->Abort(result);
      return result;
    });
    if (!status.ok()) {
      AbortComms({comm}, nullptr, options_.gpu);
      return status;
    }
  }
  return std::make_unique<Group>(this, control_, nullptr, std::move(control), std::move(comm));
}

absl::StatusOr<char*> GpuDevice::Allocate(int64_t bytes) {
  UseGpu(options_.gpu);
  const size_t size = std::max<int64_t>(bytes, 1);
  void* data = nullptr;
  const absl::Status status = NcclStatus(ncclMemAlloc(&data, size), "NCCL", nullptr);
  if (!status.ok()) {
    static_cast<void>(cudaGetLastError());
    return absl::ResourceExhaustedError(absl::StrCat("there are no ", bytes,
                                                     " bytes of memory on GPU ", options_.gpu, " (",
                                                     status.message(), ")"));
  }
  {
    const MutexLock lock(&mutex_);
    memory_.push_back({static_cast<char*>(data), static_cast<int64_t>(size), {}});
  }
  RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(data, 0, size, stream_), "cannot clear memory"));
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream_), "cannot clear memory"));
  return static_cast<char*>(data);
}

absl::Status GpuDevice::Free(char* data) {
  UseGpu(options_.gpu);
  const MutexLock no_progress(&progress_.mutex());
  const MutexLock lock(&mutex_);
  const auto found = std::find_if(memory_.begin(), memory_.end(),
                                  [&](const Region& region) { return region.begin == data; });
  if (found == memory_.end()) {
    return absl::InvalidArgumentError(
        "memory is freed that was not allocated, or was freed before");
  }
  for (const auto& [comm, handle] : found->handles) {
    if (handle != nullptr) ncclCommDeregister(*comm, handle);
  }
  memory_.erase(found);
  return NcclStatus(ncclMemFree(data), "memory cannot be freed", nullptr);
}

absl::Status GpuDevice::Copy(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  UseGpu(options_.gpu);
  RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
                             "cannot copy memory"));
  return CudaStatus(cudaStreamSynchronize(stream_), "cannot copy memory");
}

absl::Status GpuDevice::Await(absl::string_view what, Communicator* host_group,
                              const std::function<absl::StatusOr<bool>()>& is_ready) const {
  const Clock::time_point begin = Clock::now();
  while (true) {
    ASSIGN_OR_RETURN(const bool ready, is_ready());
    if (ready) return absl::OkStatus();
    const double waited = std::chrono::duration<double>(Clock::now() - begin).count();
    if (waited > options_.timeout_seconds) {
      const absl::Status status = absl::DeadlineExceededError(absl::StrCat(
          what, ": rank ", host_group->rank(), " of ", host_group->size(), " of group '",
          host_group->name(), "' has waited for NCCL for ", options_.timeout_seconds, " s"));
      host_group->Abort(status);
      return status;
    }
    if (host_group->Test(kFailureTicket)) return host_group->Wait(kFailureTicket);
    std::this_thread::sleep_for(kConnectTick);
  }
}

char* GpuDevice::NextScratch() {
  const MutexLock lock(&mutex_);
  return scratch_ + groups_made_++ % kScratchBytes;
}

absl::StatusOr<cudaEvent_t> GpuDevice::TakeEvent() {
  cudaEvent_t event = nullptr;
  {
    const MutexLock lock(&mutex_);
    if (!unused_events_.empty()) {
      event = unused_events_.back();
      unused_events_.pop_back();
      return event;
    }
  }
  UseGpu(options_.gpu);
  RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "there is no event"));
  return event;
}

void GpuDevice::ReturnEvent(cudaEvent_t event) {
  const MutexLock lock(&mutex_);
  if (event != nullptr) unused_events_.push_back(event);
}

void GpuDevice::KeepMemory() {
  const MutexLock lock(&mutex_);
  may_free_ = false;
}

void GpuDevice::Register(const Comm& comm, const void* data, int64_t bytes) {
  if (bytes == 0) return;
  const char* const begin = static_cast<const char*>(data);
  const MutexLock lock(&mutex_);
  for (Region& region : memory_) {
    if (begin < region.begin || begin + bytes > region.begin + region.bytes) continue;
    const auto [found, is_new] = region.handles.try_emplace(comm.get(), nullptr);
    if (is_new &&
        ncclCommRegister(*comm, region.begin, region.bytes, &found->second) != ncclSuccess) {
      found->second = nullptr;
    }
  }
}

void GpuDevice::Deregister(const Comm& comm, bool is_aborted) {
  const MutexLock lock(&mutex_);
  for (Region& region : memory_) {
    const auto registration = region.handles.extract(comm.get());
    if (registration.empty() || registration.mapped() == nullptr || is_aborted) continue;
    ncclCommDeregister(*comm, registration.mapped());
  }
}

absl::StatusOr<std::unique_ptr<Device>> Device::Create(Communicator* control,
                                                       const DeviceOptions& options) {
  auto device = std::make_unique<GpuDevice>(control, options);
  RETURN_IF_ERROR(device->Open());
  return device;
}

}  // namespace tessera::comm::nccl

#else

#include "collectives/nccl/device.h"

namespace tessera::comm::nccl {

absl::StatusOr<std::unique_ptr<Device>> Device::Create(Communicator* /*control*/,
                                                       const DeviceOptions& /*options*/) {
  return absl::UnimplementedError("the backend nccl needs CUDA, and this build has no CUDA");
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA
