// A futex on which a rank sleeps until a peer has done something.
//
// Thread safety: every function may be called from any thread of any process.
#ifndef TESSERA_COLLECTIVES_SHM_DOORBELL_H_
#define TESSERA_COLLECTIVES_SHM_DOORBELL_H_

#include <atomic>
#include <cstdint>

namespace tessera::comm::shm {

// Is in shared memory; initially zero.
struct alignas(64) Doorbell {
  std::atomic<uint32_t> rings;
  std::atomic<uint32_t> sleepers;

  // Called after a change that the owner may be waiting for; the change must have been stored with
  // sequential consistency.
  void Ring();
  // Sleeps until the bell rings, or for `nanoseconds`. The caller has raised `sleepers`, then read
  // `rings`, and then checked that the awaited event has not happened.
  void Sleep(uint32_t seen, int64_t nanoseconds);
};

}  // namespace tessera::comm::shm

#endif  // TESSERA_COLLECTIVES_SHM_DOORBELL_H_
