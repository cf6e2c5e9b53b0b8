#include "core/posix/file_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "gtest/gtest.h"

namespace tessera {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }
FileDescriptor OpenNull() { return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(FileDescriptorTest, ClosesWhatItOwns) {
  int fd = -1;
  {
    const FileDescriptor owner = OpenNull();
    fd = owner.get();
    EXPECT_TRUE(owner.is_open());
    EXPECT_TRUE(IsOpen(fd));
  }
  EXPECT_FALSE(IsOpen(fd));
}

TEST(FileDescriptorTest, MovesOwnership) {
  FileDescriptor first = OpenNull();
  const int fd = first.get();
  FileDescriptor second = std::move(first);
  EXPECT_EQ(second.get(), fd);
  FileDescriptor third = OpenNull();
  const int replaced = third.get();
  third = std::move(second);
  EXPECT_EQ(third.get(), fd);
  EXPECT_FALSE(IsOpen(replaced));
  EXPECT_TRUE(IsOpen(fd));
}

TEST(FileDescriptorTest, ReleaseLeavesItOpen) {
  FileDescriptor owner = OpenNull();
  const int fd = owner.Release();
  EXPECT_FALSE(owner.is_open());
  EXPECT_TRUE(IsOpen(fd));
  close(fd);
}

TEST(FileDescriptorTest, NoneIsNotClosed) {
  FileDescriptor none;
  EXPECT_EQ(none.get(), -1);
  none.Close();
  EXPECT_FALSE(none.is_open());
}

}  // namespace
}  // namespace tessera
