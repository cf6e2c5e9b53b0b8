// The Device of a build with CUDA: the GPU and its memory, which all groups of a rank share.
#ifndef TESSERA_COLLECTIVES_NCCL_GPU_DEVICE_H_
#define TESSERA_COLLECTIVES_NCCL_GPU_DEVICE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"
#include "collectives/nccl/comm.h"
#include "collectives/nccl/device.h"
#include "collectives/queue/progress_engine.h"
#include "core/sync/mutex.h"

namespace tessera::comm::nccl {

// A GPU reports no event, so a waiting thread polls: every 50 us at first, later up to every
// millisecond, but it notices an event at most 3 % of the waiting time late.
class PollingEvents : public NoEvents {
 public:
  // Called when an operation advanced and the next event is waited for.
  void Restart() { since_.store(std::chrono::steady_clock::now()); }
  void CommitWait(std::chrono::nanoseconds at_most) override;

 private:
  std::atomic<std::chrono::steady_clock::time_point> since_{};
};

class GpuDevice : public Device {
 public:
  GpuDevice(Communicator* control, const DeviceOptions& options)
      : control_(control), options_(options) {}
  ~GpuDevice() override;

  // The part of the construction that can fail.
  absl::Status Open();

  absl::StatusOr<std::unique_ptr<Communicator>> World() override;
  absl::StatusOr<char*> Allocate(int64_t bytes) override;
  absl::Status Free(char* data) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;

  // For groups. NCCL allows one thread at a time on a communicator: calls of it are made with the
  // progress engine's mutex held.
  const DeviceOptions& options() const { return options_; }
  ProgressEngine* progress() { return &progress_; }
  PollingEvents& events() { return events_; }

  // Waits until `is_ready` returns true or an error. `what` begins the message of a time-out. A
  // rank that fails here aborts `host_group`, which the others watch here.
  absl::Status Await(absl::string_view what, Communicator* host_group,
                     const std::function<absl::StatusOr<bool>()>& is_ready) const;

  // Returns a byte of GPU memory for a group's barriers, whose value has no meaning.
  char* NextScratch();
  absl::StatusOr<cudaEvent_t> TakeEvent();
  void ReturnEvent(cudaEvent_t event);  // null too
  // Called when an abort did not end in time: its kernels may use memory and events for ever.
  void KeepMemory();

  // Registers the memory of Allocate that contains the data with a communicator, if it is such
  // memory and not registered yet. Data that NCCL cannot register work without.
  void Register(const Comm& comm, const void* data, int64_t bytes);
  // Called before a communicator ends. `is_aborted`: it may not be used any more.
  void Deregister(const Comm& comm, bool is_aborted);

 private:
  struct Region {
    char* begin = nullptr;
    int64_t bytes = 0;
    std::map<ncclComm_t*, void*> handles;  // of its registrations; null: NCCL could not
  };

  Communicator* const control_;
  DeviceOptions options_;
  cudaStream_t stream_ = nullptr;  // for Allocate and Copy
  static constexpr int64_t kScratchBytes = 4096;
  char* scratch_ = nullptr;  // for barriers
  bool world_was_made_ = false;

  PollingEvents events_;
  ProgressEngine progress_{&events_, {}};
  // Held only briefly, also while the progress engine's mutex is held.
  Mutex mutex_ ABSL_ACQUIRED_AFTER(progress_.mutex());
  int64_t groups_made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Region> memory_ ABSL_GUARDED_BY(mutex_);
  std::vector<cudaEvent_t> unused_events_ ABSL_GUARDED_BY(mutex_);
  bool may_free_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_GPU_DEVICE_H_
