// Memory that processes of one host share. It is a memfd that peers open through the process that
// made it, so there is no name to clean up.
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

// Identifies a segment to other processes of the host.
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

  // Creates a segment of zeros, aligned to a page and followed by an inaccessible page. All of its
  // memory is reserved now: ResourceExhausted if the system lacks it, so that no later access
  // faults.
  static absl::StatusOr<std::shared_ptr<const Segment>> Create(int64_t bytes);
  // Maps the segment of a peer, or of this process. NotFound if the process is gone.
  static absl::StatusOr<std::shared_ptr<const Segment>> Open(const SegmentAddress& address);

  char* data() const { return data_; }
  int64_t bytes() const { return address_.bytes; }
  const SegmentAddress& address() const { return address_; }

  // Closes the descriptor. The mapping stays, but peers can no longer open the segment, and
  // MakerIsAlive may not be called.
  void CloseDescriptor() const;

  // Returns whether the process that made the segment exists, even if it is stopped.
  bool MakerIsAlive() const;
  // Returns whether that process is stopped, by a signal or by a debugger.
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
