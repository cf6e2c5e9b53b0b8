// A futex on which a rank sleeps until a peer has done something.
//
// Thread safety: every function may be called from any thread of any process.
#ifndef TESSERA_COLLECTIVES_SHM_DOORBELL_H_
#define TESSERA_COLLECTIVES_SHM_DOORBELL_H_

#include <atomic>
#include <cstdint>

namespace tessera::comm::shm {

// Is in shared memory, zero at first.
struct alignas(64) Doorbell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;

  // Called after something has changed that the owner may wait for; the change must have been
  // stored with sequential consistency.
  void Ring();
  // Sleeps until the bell rings, or for `nanoseconds`. The caller has raised `sleepers`, then read
  // `rings`, and then looked in vain for what it waits for.
  void Sleep(uint32_t seen, int64_t nanoseconds);
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_DOORBELL_H_
