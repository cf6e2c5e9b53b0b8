#include "collectives/shm/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace tessera::comm::shm {

static_assert(std::atomic<uint32_t>::is_always_lock_free);

void Doorbell::Ring() {
  if (sleepers.load() == 0) return;
  rings.fetch_add(1);
  syscall(SYS_futex, &rings, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Doorbell::Sleep(uint32_t seen, int64_t nanoseconds) {
  const timespec time = {static_cast<time_t>(nanoseconds / 1000000000),
                         static_cast<decltype(timespec::tv_nsec)>(nanoseconds % 1000000000)};
  syscall(SYS_futex, &rings, FUTEX_WAIT, seen, &time, nullptr, 0);
}

}  // namespace tessera::comm::shm
