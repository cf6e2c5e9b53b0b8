#ifdef TESSERA_CUDA

#include "collectives/nccl/comm.h"

#include <string>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tessera::comm::nccl {

absl::Status CudaStatus(cudaError_t result, absl::string_view what) {
  if (result == cudaSuccess) return absl::OkStatus();
  static_cast<void>(cudaGetLastError());  // which would give it again
  const std::string text = absl::StrCat(what, ": ", cudaGetErrorString(result));
  return result == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                             : absl::InternalError(text);
}

absl::Status NcclStatus(ncclResult_t result, absl::string_view what) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  std::string text = absl::StrCat(what, ": ", ncclGetErrorString(result));
  const absl::string_view detail = absl::StripAsciiWhitespace(ncclGetLastError(nullptr));
  if (!detail.empty()) absl::StrAppend(&text, " (", detail, ")");
  return result == ncclRemoteError ? absl::UnavailableError(text) : absl::InternalError(text);
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

std::shared_ptr<const std::atomic<bool>> AbortComms(std::vector<Comm> comms, int gpu) {
  auto ended = std::make_shared<std::atomic<bool>>(false);
  std::thread([comms = std::move(comms), gpu, ended] {
    UseGpu(gpu);
    // All at once: a kernel may be in the way of another one's.
    ncclGroupStart();
    for (const Comm& comm : comms) {
      if (*comm != nullptr) ncclCommAbort(*comm);
    }
    ncclGroupEnd();
    ended->store(true);
  }).detach();
  return ended;
}

}  // namespace tessera::comm::nccl

#endif  // TESSERA_CUDA
