// How long a launcher waits for ranks that must end.
#ifndef TESSERA_TOOLS_LAUNCH_GRACE_TIMES_H_
#define TESSERA_TOOLS_LAUNCH_GRACE_TIMES_H_

#include <chrono>

namespace tessera::comm {

struct GraceTimes {
  // After a failure, from SIGTERM to SIGKILL.
  std::chrono::milliseconds grace{5000};
  // How long a rank may be suspended (SIGSTOP) before it is killed, which is a failure. Other ranks
  // that wait for it report so a little earlier, if they have the same time-out. While all ranks
  // are suspended the time does not count. max(): without limit.
  std::chrono::milliseconds suspended_limit = std::chrono::milliseconds::max();
};

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_GRACE_TIMES_H_
