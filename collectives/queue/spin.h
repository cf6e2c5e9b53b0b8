// How a rank waits for what another one does.
#ifndef TESSERA_COLLECTIVES_QUEUE_SPIN_H_
#define TESSERA_COLLECTIVES_QUEUE_SPIN_H_

#include <chrono>
#include <thread>

namespace tessera::comm {

// Of a loop that looks again and again for something. At first it is looked for without a break.
// Soon the core is given each time to whoever else wants it, which may be the very rank that is
// waited for: ranks may outnumber cores. And then it is time to sleep.
class Spin {
 public:
  // After something has come, when the next thing is waited for.
  void Restart() { begin_ = Clock::now(); }

  // After looking in vain: whether to sleep now. If not, look again.
  bool IsOver() const {
    const Clock::duration spun = Clock::now() - begin_;
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

  Clock::time_point begin_ = Clock::now();
};

}  // namespace tessera::comm

#endif  // TESSERA_COLLECTIVES_QUEUE_SPIN_H_
