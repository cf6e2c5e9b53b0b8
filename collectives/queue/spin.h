// Waits in a polling loop: spins for 3 us, then yields, then says that it is time to sleep.
#ifndef TESSERA_COLLECTIVES_QUEUE_SPIN_H_
#define TESSERA_COLLECTIVES_QUEUE_SPIN_H_

#include <chrono>
#include <thread>

namespace tessera::comm {

// Measures how long a loop has polled without success. At first the loop polls without a break.
// Then it yields its core at each iteration, possibly to the rank that it waits for: there may be
// more ranks than cores.
class Spin {
 public:
  // Something has come, and the loop waits for the next thing. The clock, which costs as much as a
  // poll, is first read when that is not there at once.
  void Restart() { has_begun_ = false; }

  // Call it after polling in vain. Returns whether to sleep now; if not, poll again.
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
