// Ranks that have a GPU each, and communicate over NCCL.
//
// Buffers are memory of the rank's GPU. What Allocate gave is registered with the groups that use
// it, so that peers may reach it in place; memory from elsewhere works as it is.
//
// Operations run on streams of the group's own: one for its collectives, and one for what each rank
// sends to each other, over an ncclComm of their own. So all that goes on beside each other on a
// CPU does here too, as long as the kernels that wait for peers fit on the GPU beside each other;
// the README says what that asks of a job with many groups. The first message between two ranks
// takes as long as it takes NCCL to make an ncclComm.
//
// Nobody waits on the host but in Wait, and where StreamCommunicator says so. What has been issued
// goes on by itself, on a thread of the device's own, which also ends what takes too long: a stream
// that waits for an operation goes on too when its group breaks, and then with whatever there is.
//
// What NCCL does not do, a CPU backend does: `control`, a group of the same ranks. By way of it
// ranks find each other, and tell each other what they want and why they give up.
//
// Reductions have NCCL's order, which depends on the number of ranks, on sizes and on the machine;
// halves are rounded at each step, and the maximum of a NaN and a number may be the number. Traffic
// is that of a ring (docs/collectives.md): NCCL may choose another way, so it is no measurement.
//
// A thread that calls anything here has the rank's GPU as its current one from then on.
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

// What every group of a Device is, those of Split too.
class StreamCommunicator : public Communicator {
 public:
  using Communicator::Communicator;

  // Both functions refuse a stream that is being captured into a graph: a thread of NCCL's puts
  // operations on a stream of the group's own, which is no part of the capture.

  // The next operation that is issued starts after what is on the stream now. Without this, and on
  // all streams for which it has not been called, buffers must be ready when an operation is
  // issued.
  virtual absl::Status StartAfter(CUstream_st* stream) = 0;

  // Work that is put on the stream from now on starts after the operation has ended. The call waits
  // until the operation is on the GPU, not until peers have issued it: microseconds, and at a
  // group's first operations until NCCL has connected the ranks. Only Wait reports whether the
  // operation succeeded.
  virtual absl::Status LetWait(CUstream_st* stream, Ticket ticket) = 0;
};

struct DeviceOptions {
  int gpu = 0;  // CUDA's number of it, counted around the GPUs that this process sees
  // The longest that ranks wait for each other: to connect, and in an operation from when those
  // before it have ended, and what it starts after.
  double timeout_seconds = 60;
  // Whether ranks tell each other over `control` what they want of each operation. That goes beside
  // the operation and does not keep it from starting; but it has not ended before they agree. An
  // all-gather of 24 bytes for each rank, or a message of 24 bytes: over shm 1 us, over tcp 35 us,
  // which only show where an operation is shorter. Without it, ranks that differ wait until the
  // time-out or get wrong numbers, and one that dies is noticed when NCCL notices it.
  bool check = true;
};

class Device {
 public:
  // `control` is there until the Device goes, and is used by whoever makes groups. Its time-out
  // should be the same. Unimplemented in a build without CUDA.
  static absl::StatusOr<std::unique_ptr<Device>> Create(Communicator* control,
                                                        const DeviceOptions& options);
  virtual ~Device() = default;  // all groups must have gone

  // The group of all ranks, once. Collective.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> World() = 0;

  // Memory of the GPU: zeros, aligned to 512 bytes, until the Device goes. Every rank asks for its
  // own; where peers are to reach it in place, all of them use such memory in an operation.
  virtual absl::StatusOr<char*> Allocate(int64_t bytes) = 0;

  // Ends it; no operation may be in flight on it, nor on any rank.
  virtual absl::Status Free(char* data) = 0;

  // Copies to or from memory of the GPU, or both, and waits for it.
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) = 0;
};

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_DEVICE_H_
