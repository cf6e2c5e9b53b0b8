// The Device. In a build without CUDA its creation is an error.
#ifdef TESSERA_CUDA

#include "collectives/nccl/engine.h"

#include <algorithm>
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

// The thread's intervals: while NCCL is launching an operation, and while operations run.
constexpr auto kLaunchTick = std::chrono::microseconds(50);
constexpr auto kTick = std::chrono::milliseconds(1);

constexpr auto kConnectTick = std::chrono::microseconds(200);

}  // namespace

absl::Status Engine::Open() {
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
  thread_ = std::thread([this] { RunThread(); });
  return absl::OkStatus();
}

Engine::~Engine() {
  if (thread_.joinable()) {
    {
      const MutexLock lock(&mutex_);
      stop_ = true;
    }
    thread_wakes_.NotifyAll();
    thread_.join();
  }
  if (!may_free_) return;
  UseGpu(options_.gpu);
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (const Region& region : memory_) ncclMemFree(region.begin);
  if (scratch_ != nullptr) cudaFree(scratch_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

absl::StatusOr<std::unique_ptr<Communicator>> Engine::World() {
  if (world_was_made_) {
    return absl::FailedPreconditionError("the group of all ranks was made before");
  }
  world_was_made_ = true;
  const int size = control_->size();
  ASSIGN_OR_RETURN(std::unique_ptr<Communicator> control,
                   control_->Split(control_->name(), std::vector<int>(size, 0)));
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

absl::StatusOr<char*> Engine::Allocate(int64_t bytes) {
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
  const MutexLock lock(&mutex_);
  memory_.push_back({static_cast<char*>(data), static_cast<int64_t>(size)});
  RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(data, 0, size, stream_), "cannot clear memory"));
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream_), "cannot clear memory"));
  return static_cast<char*>(data);
}

absl::Status Engine::Free(char* data) {
  UseGpu(options_.gpu);
  const MutexLock lock(&mutex_);
  const auto found = std::find_if(memory_.begin(), memory_.end(),
                                  [&](const Region& region) { return region.begin == data; });
  if (found == memory_.end()) {
    return absl::InvalidArgumentError(
        "memory is freed that was not allocated, or was freed before");
  }
  for (Group* group : groups_) {
    group->AssertLocked();
    group->Deregister(data);
  }
  memory_.erase(found);
  return NcclStatus(ncclMemFree(data), "memory cannot be freed", nullptr);
}

absl::Status Engine::Copy(void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  UseGpu(options_.gpu);
  RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_),
                             "cannot copy memory"));
  return CudaStatus(cudaStreamSynchronize(stream_), "cannot copy memory");
}

char* Engine::Add(Group* group) {
  const MutexLock lock(&mutex_);
  groups_.push_back(group);
  return scratch_ + groups_made_++ % kScratchBytes;
}

void Engine::Remove(Group* group) {
  groups_.erase(std::find(groups_.begin(), groups_.end(), group));
}

absl::Status Engine::Await(absl::string_view what, Communicator* host_group,
                           const std::function<absl::StatusOr<bool>()>& is_ready) {
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
    if (host_group->Test(kNever)) return host_group->Wait(kNever);
    std::this_thread::sleep_for(kConnectTick);
  }
}

absl::StatusOr<cudaEvent_t> Engine::TakeEvent() {
  cudaEvent_t event = nullptr;
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
    return event;
  }
  UseGpu(options_.gpu);
  RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "there is no event"));
  return event;
}

void Engine::ReturnEvent(cudaEvent_t event) {
  if (event != nullptr) events_.push_back(event);
}

const Engine::Region* Engine::RegionOf(const void* data, int64_t bytes) const {
  const char* const begin = static_cast<const char*>(data);
  for (const Region& region : memory_) {
    if (begin >= region.begin && begin + bytes <= region.begin + region.bytes) return &region;
  }
  return nullptr;
}

void Engine::WakeThread() {
  thread_wanted_ = true;
  thread_wakes_.NotifyOne();
}

void Engine::RunThread() {
  UseGpu(options_.gpu);
  MutexLock lock(&mutex_);
  while (!stop_) {
    thread_wanted_ = false;
    bool under_way = false, launching = false;
    for (Group* group : groups_) {
      group->AssertLocked();
      group->AdvanceAll(&under_way, &launching);
    }
    const auto next = Clock::now() + (launching ? Clock::duration(kLaunchTick) : kTick);
    while (!stop_ && !thread_wanted_) {
      if (!under_way) {
        thread_wakes_.Wait(lock);
      } else if (!thread_wakes_.WaitUntil(lock, next)) {
        break;
      }
    }
  }
}

absl::StatusOr<std::unique_ptr<Device>> Device::Create(Communicator* control,
                                                       const DeviceOptions& options) {
  auto engine = std::make_unique<Engine>(control, options);
  RETURN_IF_ERROR(engine->Open());
  return engine;
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
