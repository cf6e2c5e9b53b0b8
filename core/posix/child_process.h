// A process that runs a function of this program on a copy of its memory, so that whatever the
// function does to its process, this one goes on.
#ifndef TESSERA_CORE_POSIX_CHILD_PROCESS_H_
#define TESSERA_CORE_POSIX_CHILD_PROCESS_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/posix/file_descriptor.h"
#include "core/sync/mutex.h"

namespace tessera {

// Thread safety: one thread at a time, apart from RequestStop.
class ChildProcess {
 public:
  using Clock = std::chrono::steady_clock;

  struct Message {
    char kind = 0;
    std::string bytes;
  };

  // The child's connection to this process. Thread-safe.
  class Parent {
   public:
    // Sends a message. Waits while the parent does not read, and ends the process if it is gone.
    void Send(char kind, absl::string_view bytes) ABSL_LOCKS_EXCLUDED(mutex_);
    // Returns whether the parent has called RequestStop.
    bool stop_requested() const { return stop_; }

   private:
    friend class ChildProcess;
    Parent(FileDescriptor pipe, const std::atomic<bool>* stop)
        : pipe_(std::move(pipe)), stop_(*stop) {}

    Mutex mutex_;
    const FileDescriptor pipe_;
    const std::atomic<bool>& stop_;
  };

  // Starts a process that runs `body` and ends when it returns, or when the calling thread of this
  // process ends. Of the threads of this process it has the calling one alone, so `body` must not
  // wait for others. No destructors of static objects and no exit handlers run in it. Signals that
  // end or interrupt a job are left to this process. An error has the code of its errno.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::function<void(Parent& parent)>& body);
  // Ends the process.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  enum class Event { kMessage, kEnd, kTimeOut };
  // Waits for the next message, or for the end of the process after its last message.
  Event Receive(Clock::time_point until, Message* message);

  // Asks the process to stop. Any thread may call it.
  void RequestStop() { *stop_ = true; }

  // Ends the process if it still runs. Returns how it ended: "exit code 0", "signal 11
  // (Segmentation fault)".
  std::string End();

 private:
  ChildProcess() = default;
  // Reads what has arrived. Returns false at the end of the pipe.
  bool Read();
  // Moves the next complete message from received_ to `message`. Returns false if there is none.
  bool TakeMessage(Message* message);
  // Returns whether the process has ended.
  bool HasEnded();

  pid_t pid_ = -1;
  FileDescriptor pipe_;
  std::atomic<bool>* stop_ = nullptr;  // in a page that both processes share
  std::string received_;
  size_t taken_ = 0;  // the bytes of received_ that were returned as messages
  bool has_ended_ = false;
  int status_ = 0;  // of waitpid
};

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_CHILD_PROCESS_H_
