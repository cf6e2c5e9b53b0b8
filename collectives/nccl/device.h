// Ranks that have a GPU each, and communicate over NCCL.
//
// Buffers are memory of the rank's GPU. Memory of Allocate is registered with the groups that use
// it, so that peers may reach it in place; other memory of the GPU works without registration.
//
// Operations run on streams of the group's own: one for its collectives, and one for the messages
// from each rank to each other, over an ncclComm of their own. Operations of different streams run
// beside each other, as on a CPU, as long as the kernels that wait for peers fit on the GPU
// together; the README describes what follows for a job with many groups. The first message between
// two ranks takes the time in which NCCL makes an ncclComm.
//
// The host waits only in Wait and in StreamOrder::LetWait. A thread of the device advances issued
// operations, and aborts those that take too long. A stream that waits for an operation of a group
// that fails continues with undefined data.
//
// A CPU backend does what NCCL does not: `control` is a group of the same ranks over the CPU. Ranks
// use it to find each other, to compare their requests, and to report why they abort.
//
// Reductions have NCCL's order, which depends on the number of ranks, on sizes and on the machine;
// halves are rounded at each step, and the maximum of a NaN and a number may be the number. Traffic
// is computed for a ring (docs/collectives.md), whatever algorithm NCCL uses; it is not measured.
//
// A thread that calls a function of this file has the rank's GPU as its current one from then on.
//
// Thread safety: as Communicator; Allocate and the making of groups come from one thread at a time.
#ifndef TESSERA_COLLECTIVES_NCCL_DEVICE_H_
#define TESSERA_COLLECTIVES_NCCL_DEVICE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"

struct CUstream_st;  // a pointer to it is a cudaStream_t

namespace tessera::comm::nccl {

// Orders a group's operations with the work on CUDA streams. Every group of a Device implements it,
// those of Split too. Both functions refuse a stream that is being captured into a graph: a thread
// of NCCL's puts operations on a stream of the group's own, which is no part of the capture.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;

  // Makes the next operation that is issued start after the work that is on the stream now. Buffers
  // that other streams write must be ready when the operation is issued. The thread that issues
  // calls it.
  virtual absl::Status StartAfter(CUstream_st* stream) = 0;

  // Makes work that is later enqueued on the stream start after the operation has ended. The call
  // waits until the operation is on the GPU, not until peers have issued it: microseconds, and at a
  // group's first operations until NCCL has connected the ranks. Only Wait reports whether the
  // operation succeeded.
  virtual absl::Status LetWait(CUstream_st* stream, Ticket ticket) = 0;
};

struct DeviceOptions {
  int gpu = 0;  // CUDA's number of the GPU, modulo the number of GPUs that this process sees
  // The longest that ranks wait for each other: to connect, and in an operation, counted from the
  // end of the operations before it and of the work that it starts after.
  double timeout_seconds = 60;
  // Whether ranks compare their requests over `control`. The comparison runs beside the operation
  // and does not delay its start, but the operation ends only after it. It takes an all-gather of
  // 24 bytes for each rank, or a message of 24 bytes: 1 us over shm, 35 us over tcp, which matters
  // for shorter operations only. Without it, ranks whose requests differ wait until the time-out or
  // get wrong numbers, and a rank's death is noticed when NCCL notices it.
  bool check = true;
};

class Device {
 public:
  // `control` outlives the Device. The Device uses it on the threads that make groups. It should
  // have the same time-out. Unimplemented in a build without CUDA.
  static absl::StatusOr<std::unique_ptr<Device>> Create(Communicator* control,
                                                        const DeviceOptions& options);
  virtual ~Device() = default;  // after all groups

  // Makes the group of all ranks; may be called once. Collective.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> World() = 0;

  // Allocates memory of the GPU: zeros, aligned to 512 bytes, freed with the Device or by Free.
  // Each rank allocates its own. Peers reach it in place if all ranks of an operation use such
  // memory.
  virtual absl::StatusOr<char*> Allocate(int64_t bytes) = 0;

  // Frees memory of Allocate. No operation on it may be in flight, on any rank.
  virtual absl::Status Free(char* data) = 0;

  // Copies to or from memory of the GPU, or both, and waits for it.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) = 0;
};

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_DEVICE_H_
