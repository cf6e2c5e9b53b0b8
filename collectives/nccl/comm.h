// CUDA's and NCCL's results as values, and the state and end of an ncclComm. Needs CUDA.
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
// `comm` is the communicator that was used, or null if there is none yet. NCCL keeps its messages
// for the process, not for the communicator (as of 2.28), so the text calls it NCCL's last message.
// ncclInProgress is no error.
absl::Status NcclStatus(ncclResult_t result, absl::string_view what, ncclComm_t comm);

// An error if the NCCL that the process has loaded is older than 2.22: this backend reads the
// states of non-blocking communicators, which older releases report otherwise.
absl::Status CheckNcclVersion();

// Makes a GPU the thread's current one. It does not switch back: the former GPU may have no
// context, and making it current would create one, with memory of its own.
void UseGpu(int gpu);

// A communicator. Shared, since threads of NCCL write the pointer, also while it is being aborted.
using Comm = std::shared_ptr<ncclComm_t>;

// The configuration of all communicators, which are non-blocking.
ncclConfig_t Config();

// Returns the state of a communicator: ncclSuccess if it may be used.
ncclResult_t StateOf(const Comm& comm);

// Ends all that runs on them, from threads of its own: NCCL may take long, and has been seen to
// hang. `child`, unless it is null, is a communicator that one of `comms` may be making; it is
// aborted last. The result is true when no kernel of theirs runs any more.
std::shared_ptr<const std::atomic<bool>> AbortComms(std::vector<Comm> comms, const Comm& child,
                                                    int gpu);

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_COMM_H_
