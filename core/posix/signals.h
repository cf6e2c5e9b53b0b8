// Signals of a program that runs kernels.
//
// Some of oneDNN's generated kernels use the stack pointer as an ordinary register that points into
// the heap. The kernel of the system writes a signal handler's frame below the stack pointer of the
// thread that the handler runs on, so a handler on such a thread overwrites the heap. Therefore no
// thread that runs kernels may handle a signal: one thread handles all of them.
#ifndef TESSERA_CORE_POSIX_SIGNALS_H_
#define TESSERA_CORE_POSIX_SIGNALS_H_

#include <functional>
#include <thread>
#include <vector>

#include "core/posix/file_descriptor.h"

namespace tessera {

// The thread that takes every signal of this process. Construct it on the first line of main,
// before any other thread exists: it blocks signals in the calling thread, and later threads
// inherit that.
//
// Two kinds of signals are not blocked: those that a thread's own fault raises (SIGSEGV, SIGBUS,
// SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT) and those of job control (SIGTSTP, SIGTTIN, SIGTTOU,
// SIGCONT). We have no handlers for them.
//
// A process that starts another program must restore the signal mask between fork and exec, because
// the new program inherits it.
//
// Thread safety: one thread at a time.
class SignalThread {
 public:
  // All signals keep their dispositions.
  SignalThread() : SignalThread({}, nullptr) {}
  // Calls `handle` on the thread, one signal at a time, for each signal in `handled`, even if the
  // process was started with that signal ignored. All other signals keep their dispositions.
  SignalThread(const std::vector<int>& handled, std::function<void(int signal)> handle);
  // Joins the thread. Signals stay blocked.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

 private:
  void Run(const std::function<void(int signal)>& handle);

  FileDescriptor signals_, stop_;
  std::thread thread_;
};

// Takes the system's default action for an unhandled signal. Returns if that action is to ignore
// it. For a SignalThread's handler.
void TakeDefaultAction(int signal);

// Makes writing to a closed pipe, or beyond the file-size limit, fail with EPIPE or EFBIG instead
// of ending the process with SIGPIPE or SIGXFSZ. Programs that this process starts inherit this
// setting.
void LetWritesFail();

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_SIGNALS_H_
