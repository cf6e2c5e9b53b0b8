// Memory that processes of one host share: a memfd, which its peers open by way of the process that
// made it, so that there is no name that could be left behind.
//
// Thread safety: functions may be called from any thread; a Segment is immutable.
#ifndef TESSERA_COLLECTIVES_SHM_SEGMENT_H_
#define TESSERA_COLLECTIVES_SHM_SEGMENT_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace tessera::comm::shm {

// How another process finds a segment. Has no meaning outside of the host.
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

  // Zeros, aligned to a page. All of it is reserved: ResourceExhausted where the system has not so
  // much, and no fault later.
  static absl::StatusOr<std::shared_ptr<const Segment>> Create(int64_t bytes);
  // The segment of a peer, or this process's own. NotFound if the process is gone.
  static absl::StatusOr<std::shared_ptr<const Segment>> Open(const SegmentAddress& address);

  char* data() const { return data_; }
  int64_t bytes() const { return address_.bytes; }
  const SegmentAddress& address() const { return address_; }

  // Whether the process that made it is there. A process that was stopped is.
  bool MakerIsAlive() const;
  // Whether it was stopped, by a signal or by a debugger.
  bool MakerIsStopped() const;

 private:
  Segment(int descriptor, char* data, const SegmentAddress& address)
      : descriptor_(descriptor), data_(data), address_(address) {}
  static absl::StatusOr<std::shared_ptr<const Segment>> Map(int descriptor,
                                                            const SegmentAddress& address);

  const int descriptor_;
  char* const data_;
  const SegmentAddress address_;
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_SEGMENT_H_
