// The time slice of a thread: how long it runs before another thread gets the core.
//
// Thread safety: functions concern the calling thread only.
#ifndef TESSERA_CORE_POSIX_TIME_SLICE_H_
#define TESSERA_CORE_POSIX_TIME_SLICE_H_

#include <chrono>

namespace tessera {

// Sets the slice; policy and nice value stay. Linux accepts 0.1 to 100 ms since 6.12; earlier
// versions ignore it. Since then a thread that wakes up interrupts one with a longer slice. Does
// nothing for a thread with a real-time policy.
void SetTimeSlice(std::chrono::nanoseconds slice);

// Returns the slice; 0 if the system does not report any.
std::chrono::nanoseconds TimeSlice();

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_TIME_SLICE_H_
