// The Device of a build with CUDA: what all groups of a rank share.
#ifndef TESSERA_COLLECTIVES_NCCL_ENGINE_H_
#define TESSERA_COLLECTIVES_NCCL_ENGINE_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "collectives/communicator.h"
#include "collectives/nccl/comm.h"
#include "collectives/nccl/device.h"

namespace tessera::comm::nccl {

class Group;

// What no operation has: done only when a group over the CPU is broken, and then Wait says why.
inline constexpr Ticket kNever = {0, UINT64_MAX};

class Engine : public Device {
 public:
  Engine(Communicator* control, const DeviceOptions& options)
      : control_(control), options_(options) {}
  ~Engine() override;

  // What may fail of the making.
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

  // Returns a byte of the GPU for the group's barriers, whose value nobody needs.
  char* Add(Group* group);

  // Waits until `is_ready` returns true or an error. `what` begins the message of a time-out. A
  // rank that cannot go on aborts `host_group`, for the others, which watch it here.
  absl::Status Await(absl::string_view what, Communicator* host_group,
                     const std::function<absl::StatusOr<bool>()>& is_ready);

  // All of what follows has the mutex held.
  void Remove(Group* group);
  absl::StatusOr<cudaEvent_t> TakeEvent();
  void ReturnEvent(cudaEvent_t event);
  const Region* RegionOf(const void* data, int64_t bytes) const;
  // Has the thread look after operations.
  void WakeThread();
  void RunThread();

  Communicator* const control_;
  DeviceOptions options_;
  cudaStream_t stream_ = nullptr;  // of Allocate and Copy
  static constexpr int64_t kScratchBytes = 4096;
  char* scratch_ = nullptr;  // for barriers
  bool world_was_made_ = false;

  std::mutex mutex_;  // guards what follows, and the state of all groups
  std::vector<Group*> groups_;
  int64_t groups_made_ = 0;
  std::vector<Region> memory_;
  std::vector<cudaEvent_t> events_;  // that nobody uses
  bool may_free_ = true;             // no kernel is left over from an abort that did not end
  bool thread_wanted_ = false, stop_ = false;
  std::condition_variable thread_wakes_;
  std::thread thread_;
};

}  // namespace tessera::comm::nccl

#endif  // TESSERA_COLLECTIVES_NCCL_ENGINE_H_
