// Signals of a program that runs kernels.
//
// Some of oneDNN's generated kernels use the stack pointer as an ordinary register that points into
// the heap. The kernel of the system writes a signal handler's frame below the stack pointer of the
// thread that the handler runs on, so a handler on such a thread overwrites the heap. Therefore no
// thread that runs kernels takes a signal: one thread takes them all.
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
// Signals that a fault of the thread itself raises (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
// SIGSYS, SIGABRT) and those of job control (SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT) stay deliverable
// everywhere; no handler of ours exists for them.
//
// A program that starts others restores the mask between fork and exec, as a new program inherits
// it.
//
// Thread safety: one thread at a time.
class SignalThread {
 public:
  // All signals keep their dispositions.
  SignalThread() : SignalThread({}, nullptr) {}
  // `handle` is called on the thread, one signal at a time, for each of `handled`, also if the
  // process was started with that signal ignored. All others keep their dispositions.
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

// The signals with which a user stops a program: Ctrl-C (SIGINT), SIGTERM, and the loss of the
// terminal (SIGHUP). SIGHUP is left out if it is ignored, as by nohup, so that a run outlives its
// terminal.
std::vector<int> InterruptingSignals();

// For a SignalThread's handler: does what the system would have done with a signal that nobody
// handles. Returns if that is nothing.
void TakeDefaultAction(int signal);

// Writing to a closed pipe, or beyond the file-size limit, fails with EPIPE or EFBIG instead of
// ending the process with SIGPIPE or SIGXFSZ. Programs that this one starts inherit that.
void LetWritesFail();

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_SIGNALS_H_
