// A group of GPUs as one of CPUs, for tests: what an operation reads is copied to the GPU, and what
// it has written is copied back when it is waited for. Around what it may write there is memory
// that it may not, and Wait says so if it did. Needs CUDA.
//
// Thread safety: as Communicator.
#ifndef TESSERA_COLLECTIVES_NCCL_MIRRORED_H_
#define TESSERA_COLLECTIVES_NCCL_MIRRORED_H_

#include <memory>

#include "collectives/communicator.h"
#include "collectives/nccl/device.h"

namespace tessera::comm::nccl {

// `memory` is of the GPU, `bytes` of it for the operations in flight of this group and of those
// that are made from it; where it is null, each operation has memory that CUDA gives.
std::unique_ptr<Communicator> Mirror(std::unique_ptr<Communicator> group, char* memory,
                                     int64_t bytes);

// The group behind it.
StreamCommunicator& Mirrored(Communicator& group);

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_MIRRORED_H_
