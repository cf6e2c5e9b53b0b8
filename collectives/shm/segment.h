// Memory that processes of one host share: a memfd, which peers open through the process that made
// it, so that there is no name that could be left behind.
//
// Thread safety: functions may be called from any thread.
#ifndef TESSERA_COLLECTIVES_SHM_SEGMENT_H_
#define TESSERA_COLLECTIVES_SHM_SEGMENT_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "core/posix/file_descriptor.h"
#include "core/sync/mutex.h"

namespace tessera::comm::shm {

// How another process of the host finds a segment.
struct SegmentAddress {
  int64_t process = 0;
  int64_t descriptor = -1;
  int64_t bytes = 0;
};

class Segment {
 public:
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  // Zeros, aligned to a page, with a page behind them that nobody may touch. All of it is reserved
  // now: ResourceExhausted if the system has not so much, and no fault later.
  static absl::StatusOr<std::shared_ptr<const Segment>> Create(int64_t bytes);
  // The segment of a peer, or this process's own. NotFound if the process is gone.
  static absl::StatusOr<std::shared_ptr<const Segment>> Open(const SegmentAddress& address);

  char* data() const { return data_; }
  int64_t bytes() const { return address_.bytes; }
  const SegmentAddress& address() const { return address_; }

  // The mapping stays; peers can no longer open it, and MakerIsAlive may not be called.
  void CloseDescriptor() const;

  // Whether the process that made it exists. One that was stopped does.
  bool MakerIsAlive() const;
  // Whether it was stopped, by a signal or by a debugger.
  bool MakerIsStopped() const;

 private:
  Segment(FileDescriptor descriptor, char* data, const SegmentAddress& address)
      : descriptor_(std::move(descriptor)), data_(data), address_(address) {}
  static absl::StatusOr<std::shared_ptr<const Segment>> Map(FileDescriptor descriptor,
                                                            const SegmentAddress& address);

  mutable Mutex mutex_;
  mutable FileDescriptor descriptor_ ABSL_GUARDED_BY(mutex_);
  char* const data_;
  const SegmentAddress address_;
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_SEGMENT_H_
