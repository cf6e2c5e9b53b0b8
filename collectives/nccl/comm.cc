#ifdef TESSERA_CUDA

#include "collectives/nccl/comm.h"

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/status/status_macros.h"

namespace tessera::comm::nccl {

absl::Status CudaStatus(cudaError_t result, absl::string_view what) {
  if (result == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());  // so that the next caller of it does not get this error
  const std::string text = absl::StrCat(what, ": ", cudaGetErrorString(result));
  return result == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                             : absl::InternalError(text);
}

absl::Status NcclStatus(ncclResult_t result, absl::string_view what, ncclComm_t comm) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  std::string text = absl::StrCat(what, ": ", ncclGetErrorString(result));
  const absl::string_view detail = absl::StripAsciiWhitespace(ncclGetLastError(comm));
  if (!detail.empty()) absl::StrAppend(&text, " (NCCL's last message: ", detail, ")");
  return result == ncclRemoteError ? absl::UnavailableError(text) : absl::InternalError(text);
}

absl::Status CheckNcclVersion() {
  constexpr int kOldest = NCCL_VERSION(2, 22, 0);
  static_assert(NCCL_VERSION_CODE >= kOldest, "nccl.h is too old: 2.22 or newer is needed");
  int version = 0;
  RETURN_IF_ERROR(NcclStatus(ncclGetVersion(&version), "NCCL cannot be used", nullptr));
  if (version >= kOldest) return absl::OkStatus();
  const int major = version / 10000, minor = version / 100 % 100, patch = version % 100;
  return absl::FailedPreconditionError(absl::StrCat(
      "NCCL ", major, ".", minor, ".", patch, " is too old: this backend needs 2.22 or newer"));
}

void UseGpu(int gpu) {
  int current = -1;
  if (cudaGetDevice(&current) != cudaSuccess || current != gpu) cudaSetDevice(gpu);
}

ncclConfig_t Config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

ncclResult_t StateOf(const Comm& comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(*comm, &state);
  return result == ncclSuccess ? state : result;
}

// ncclCommAbort sets its communicator's flag, and then waits for the thread that launches kernels
// of that communicator. The launch may wait for a kernel of another communicator, whose flag must
// be set by then; so each abort has a thread of its own.
std::shared_ptr<const std::atomic<bool>> AbortComms(std::vector<Comm> comms, const Comm& child,
                                                    int gpu) {
  auto ended = std::make_shared<std::atomic<bool>>(false);
  std::thread([comms = std::move(comms), child, gpu, ended] {
    const auto abort = [gpu](const Comm& comm) {
      UseGpu(gpu);
      if (*comm != nullptr) ncclCommAbort(*comm);
    };
    std::vector<std::thread> threads;
    threads.reserve(comms.size());
    for (const Comm& comm : comms) threads.emplace_back(abort, comm);
    for (std::thread& thread : threads) thread.join();
    // The abort of its parent has stopped the creation of the child, and NCCL no longer writes its
    // address.
    if (child != nullptr) abort(child);
    ended->store(true);
  }).detach();
  return ended;
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA
