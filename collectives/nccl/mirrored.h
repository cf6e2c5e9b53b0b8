// A group of GPUs whose buffers are memory of the CPU, for tests: inputs are copied to the GPU, and
// outputs are copied back in Wait. Wait fails if the operation wrote around its buffers. Needs
// CUDA.
//
// Thread safety: as Communicator.
#ifndef TESSERA_COLLECTIVES_NCCL_MIRRORED_H_
#define TESSERA_COLLECTIVES_NCCL_MIRRORED_H_

#include <memory>

#include "collectives/communicator.h"

namespace tessera::comm::nccl {

// `memory`, `bytes` of the GPU's, is for the operations in flight of this group and of those that
// are made from it. If it is null, each operation allocates memory.
std::unique_ptr<Communicator> Mirror(std::unique_ptr<Communicator> group, char* memory,
                                     int64_t bytes);

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_MIRRORED_H_
