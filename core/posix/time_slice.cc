#include "core/posix/time_slice.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tessera {
namespace {

// The first version of Linux's sched_attr. Its own header and that of the C library exclude each
// other in Debian 12.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;  // ns; of an ordinary thread, the slice
  uint64_t deadline = 0;
  uint64_t period = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

// Returns whether the attributes were read.
bool Read(SchedulingAttributes* attributes) {
  return syscall(SYS_sched_getattr, 0, attributes, sizeof(*attributes), 0) == 0;
}

bool IsOrdinary(const SchedulingAttributes& attributes) {
  return attributes.policy == SCHED_OTHER || attributes.policy == SCHED_BATCH;
}

}  // namespace

void SetTimeSlice(std::chrono::nanoseconds slice) {
  SchedulingAttributes attributes;
  if (!Read(&attributes) || !IsOrdinary(attributes)) return;
  attributes.runtime = slice.count();
  // A sandbox may forbid it. Then only times differ.
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
}

std::chrono::nanoseconds TimeSlice() {
  SchedulingAttributes attributes;
  if (!Read(&attributes) || !IsOrdinary(attributes)) return {};
  return std::chrono::nanoseconds(attributes.runtime);
}

}  // namespace tessera
