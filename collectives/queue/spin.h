// Waits in a polling loop: spins for 3 us, then yields, then reports that it is time to sleep.
#ifndef TESSERA_COLLECTIVES_QUEUE_SPIN_H_
#define TESSERA_COLLECTIVES_QUEUE_SPIN_H_

#include <chrono>
#include <thread>

namespace tessera::comm {

// Measures how long a loop has polled in vain. At first the loop polls without a break. Then it
// yields its core after each poll, possibly to the rank that it waits for, since ranks may
// outnumber cores.
class Spin {
 public:
  // Called when an event has arrived and the loop starts to wait for the next one. Reading the
  // clock costs as much as a poll, so it is first read when a poll finds nothing.
  void Restart() { has_begun_ = false; }

  // Call it after a poll that found nothing. Returns whether to sleep now; if not, poll again.
  bool IsOver() {
    const Clock::time_point now = Clock::now();
    if (!has_begun_) begin_ = now;
    has_begun_ = true;
    const Clock::duration spun = now - begin_;
    if (spun >= kSleepAfter) return true;
    if (spun >= kGiveWayAfter) {
      std::this_thread::yield();
    } else {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    return false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::microseconds kGiveWayAfter{3};
  static constexpr std::chrono::microseconds kSleepAfter{50};

  bool has_begun_ = false;
  Clock::time_point begin_;
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_QUEUE_SPIN_H_
