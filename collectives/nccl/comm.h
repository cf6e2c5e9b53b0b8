// CUDA's and NCCL's results as values, and the end of an ncclComm. Needs CUDA.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_NCCL_COMM_H_
#define TESSERA_COLLECTIVES_NCCL_COMM_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include <atomic>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tessera::comm::nccl {

absl::Status CudaStatus(cudaError_t result, absl::string_view what);
// NCCL may have it in hand still (ncclInProgress), which is no error.
absl::Status NcclStatus(ncclResult_t result, absl::string_view what);

// Makes a GPU the thread's current one. It stays so: to go back to another one would make a context
// there, with memory of its own.
void UseGpu(int gpu);

// Where NCCL's threads write, also while it is being aborted.
using Comm = std::shared_ptr<ncclComm_t>;

// Non-blocking, as all are.
ncclConfig_t Config();

// What NCCL has to say of a comm: ncclSuccess if it may be used.
ncclResult_t StateOf(const Comm& comm);

// Ends all that runs on them, from a thread of its own: NCCL may take long, and has been seen to
// hang. The result is true when no kernel of theirs runs any more.
std::shared_ptr<const std::atomic<bool>> AbortComms(std::vector<Comm> comms, int gpu);

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_COMM_H_
