// Progress of a list of equal tasks, as lines on stderr.
#ifndef TESSERA_TOOLS_PLAN_PROGRESS_H_
#define TESSERA_TOOLS_PLAN_PROGRESS_H_

#include <chrono>
#include <string>

namespace tessera {

// Not thread-safe.
class Progress {
 public:
  explicit Progress(int tasks) : tasks_(tasks) {}

  // Reports that another task is done, at most once a second, and not for the last one:
  //
  //   planned 3 of 12, fsdp on 64 ranks; 5.1 s left
  void Done(const std::string& task);

 private:
  using Clock = std::chrono::steady_clock;

  const int tasks_;
  int done_ = 0;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
};

}  // namespace tessera

#endif  // TESSERA_TOOLS_PLAN_PROGRESS_H_
