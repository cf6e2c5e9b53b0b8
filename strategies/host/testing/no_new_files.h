// A process that can open no more files, so that it cannot make the pipe to a new process.
#ifndef TESSERA_STRATEGIES_HOST_TESTING_NO_NEW_FILES_H_
#define TESSERA_STRATEGIES_HOST_TESTING_NO_NEW_FILES_H_

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace tessera {

// While it exists, the process can have no more open files than `more` beyond those that it has
// now. One at a time.
class NoNewFiles {
 public:
  explicit NoNewFiles(int more = 0) {
    const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(next);
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few = {static_cast<rlim_t>(next + more), before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoNewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoNewFiles(const NoNewFiles&) = delete;
  NoNewFiles& operator=(const NoNewFiles&) = delete;

 private:
  rlimit before_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_TESTING_NO_NEW_FILES_H_
