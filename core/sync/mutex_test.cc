#include "core/sync/mutex.h"

#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace tessera {
namespace {

struct Counter {
  Mutex mutex;
  ConditionVariable changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, ExcludesOtherThreads) {
  Counter counter;
  const auto add = [&counter] {
    for (int i = 0; i < 10000; ++i) {
      const MutexLock lock(&counter.mutex);
      ++counter.value;
    }
  };
  std::thread other(add);
  add();
  other.join();
  const MutexLock lock(&counter.mutex);
  EXPECT_EQ(counter.value, 20000);
}

TEST(MutexTest, WaitingReleasesTheLock) {
  Counter counter;
  std::thread other([&counter] {
    const MutexLock lock(&counter.mutex);
    counter.value = 1;
    counter.changed.NotifyAll();
  });
  {
    MutexLock lock(&counter.mutex);
    while (counter.value == 0) counter.changed.Wait(lock);
    EXPECT_EQ(counter.value, 1);
    EXPECT_FALSE(counter.changed.WaitFor(lock, std::chrono::milliseconds(1)));
  }
  other.join();
}

TEST(MutexTest, UnlockLetsOthersIn) {
  Counter counter;
  MutexLock lock(&counter.mutex);
  lock.Unlock();
  EXPECT_TRUE(counter.mutex.TryLock());
  counter.mutex.Unlock();
  lock.Lock();
  EXPECT_FALSE(counter.mutex.TryLock());
}

}  // namespace
}  // namespace tessera
