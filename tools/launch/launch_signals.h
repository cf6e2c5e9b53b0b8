// The signals that the launcher handles.
#ifndef TESSERA_TOOLS_LAUNCH_LAUNCH_SIGNALS_H_
#define TESSERA_TOOLS_LAUNCH_LAUNCH_SIGNALS_H_

#include <signal.h>

#include "absl/status/statusor.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

// Blocks the signals that the launcher passes on to ranks, SIGCHLD and SIGPIPE, and reads them from
// a descriptor. Signals that were ignored before stay ignored: nohup ignores SIGHUP, and a shell
// ignores SIGINT for a program in the background. No disposition changes, so that ranks that start
// with `original_mask` start as if the launcher were not there.
//
// Thread safety: the process has one thread.
class LaunchSignals {
 public:
  static absl::StatusOr<LaunchSignals> Take();

  int fd() const { return fd_.get(); }
  const sigset_t& original_mask() const { return original_mask_; }

  // Returns the next signal to pass on that has arrived, or 0 if there is none. Reaps children.
  int Next();

 private:
  FileDescriptor fd_;
  sigset_t original_mask_ = {};
};

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_LAUNCH_SIGNALS_H_
