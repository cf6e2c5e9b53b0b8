// One of the launcher's own output streams. Writing to it never blocks the launcher, whether its
// reader is slow, does not read at all, or has gone.
#ifndef TESSERA_TOOLS_LAUNCH_OUTPUT_SINK_H_
#define TESSERA_TOOLS_LAUNCH_OUTPUT_SINK_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "core/posix/file_descriptor.h"

namespace tessera::comm {

// Thread safety: one thread at a time. SIGPIPE must be blocked or ignored.
class OutputSink {
 public:
  // `fd` stays the caller's, in the mode that it has: other processes may share it.
  explicit OutputSink(int fd);

  // Queues text, and writes as much as the reader takes now.
  void Write(absl::string_view text);
  void Flush();

  bool is_empty() const { return queue_.empty(); }
  // True if so much is queued that no more output should be read from ranks.
  bool is_full() const { return queue_.size() > kMaxQueuedBytes; }
  // True if the reader has gone, or the stream cannot be written for another reason. Text is then
  // dropped.
  bool is_closed() const { return is_closed_; }
  // For poll(2) with POLLOUT; -1 if nothing is queued.
  int poll_fd() const { return queue_.empty() ? -1 : fd_; }

 private:
  enum class Kind { kFile, kNonBlocking, kSocket, kBlocking };

  static constexpr size_t kMaxQueuedBytes = 1 << 20;

  // As write(2). EAGAIN if the reader takes nothing now.
  int64_t WriteSome(absl::string_view text);

  int fd_;
  FileDescriptor reopened_;  // the same stream, in non-blocking mode
  Kind kind_ = Kind::kBlocking;
  std::string queue_;
  bool is_closed_ = false;
};

}  // namespace tessera::comm

#endif  // TESSERA_TOOLS_LAUNCH_OUTPUT_SINK_H_
