// A process that can open no more files, so that it cannot make the pipe to a new process.
#ifndef TESSERA_STRATEGIES_HOST_TESTING_NO_NEW_FILES_H_
#define TESSERA_STRATEGIES_HOST_TESTING_NO_NEW_FILES_H_

#include <sys/resource.h>

namespace tessera {

// While it exists, the process can open no files. One at a time.
class NoNewFiles {
 public:
  NoNewFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none = {0, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoNewFiles() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoNewFiles(const NoNewFiles&) = delete;
  NoNewFiles& operator=(const NoNewFiles&) = delete;

 private:
  rlimit before_;
};

}  // namespace tessera

#endif  // TESSERA_STRATEGIES_HOST_TESTING_NO_NEW_FILES_H_
