// An owned file descriptor.
#ifndef TESSERA_CORE_POSIX_FILE_DESCRIPTOR_H_
#define TESSERA_CORE_POSIX_FILE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace tessera {

// Owns a file descriptor, or none, and closes it when it is destroyed. If the result of close(2)
// matters (after writing a file), call Release and close the descriptor yourself.
//
// Thread safety: one thread at a time.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}  // takes ownership; a negative number is none
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = other.Release();
    }
    return *this;
  }

  int get() const { return fd_; }  // -1 if there is none
  bool is_open() const { return fd_ >= 0; }
  // Hands the descriptor over to the caller.
  int Release() { return std::exchange(fd_, -1); }
  void Close() {
    if (fd_ >= 0) close(Release());
  }

 private:
  int fd_ = -1;
};

}  // namespace tessera

#endif  // TESSERA_CORE_POSIX_FILE_DESCRIPTOR_H_
