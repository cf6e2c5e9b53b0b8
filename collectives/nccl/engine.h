// The Device of a build with CUDA: the GPU, its memory and the thread, which all groups of a rank
// share.
#ifndef TESSERA_COLLECTIVES_NCCL_ENGINE_H_
#define TESSERA_COLLECTIVES_NCCL_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"
#include "collectives/nccl/comm.h"
#include "collectives/nccl/device.h"
#include "core/sync/mutex.h"

namespace tessera::comm::nccl {

class Group;

// A ticket of no operation. Over a group of the CPU it is done if the group has failed, and Wait
// returns the reason.
inline constexpr Ticket kNever = {0, UINT64_MAX};

class Engine : public Device {
 public:
  Engine(Communicator* control, const DeviceOptions& options)
      : control_(control), options_(options) {}
  ~Engine() override;

  // The part of the construction that can fail.
  absl::Status Open();

  absl::StatusOr<std::unique_ptr<Communicator>> World() override;
  absl::StatusOr<char*> Allocate(int64_t bytes) override;
  absl::Status Free(char* data) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes) override;

 private:
  friend class Group;

  struct Region {
    char* begin = nullptr;
    int64_t bytes = 0;
  };

  // Returns a byte of GPU memory for the group's barriers, whose value has no meaning.
  char* Add(Group* group);

  // Waits until `is_ready` returns true or an error. `what` begins the message of a time-out. A
  // rank that cannot go on aborts `host_group`, for the others, which watch it here.
  absl::Status Await(absl::string_view what, Communicator* host_group,
                     const std::function<absl::StatusOr<bool>()>& is_ready);

  void Remove(Group* group) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<cudaEvent_t> TakeEvent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnEvent(cudaEvent_t event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Region* RegionOf(const void* data, int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has the thread move operations on.
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunThread();

  Communicator* const control_;
  DeviceOptions options_;
  cudaStream_t stream_ = nullptr;  // for Allocate and Copy
  static constexpr int64_t kScratchBytes = 4096;
  char* scratch_ = nullptr;  // for barriers
  bool world_was_made_ = false;

  Mutex mutex_;  // also guards the state of all groups
  std::vector<Group*> groups_ ABSL_GUARDED_BY(mutex_);
  int64_t groups_made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Region> memory_ ABSL_GUARDED_BY(mutex_);
  std::vector<cudaEvent_t> events_ ABSL_GUARDED_BY(mutex_);  // not in use
  // False once an abort did not end in time: its kernels may still use memory and events.
  bool may_free_ ABSL_GUARDED_BY(mutex_) = true;
  bool thread_wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  ConditionVariable thread_wakes_;
  std::thread thread_;
};

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_ENGINE_H_
