#include "tools/launch/output_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace tessera::comm {
namespace {

// Reads until nothing is left, and writes what the sink has queued meanwhile.
std::string ReadAll(int fd, OutputSink* sink) {
  std::string text;
  char bytes[4096];
  fcntl(fd, F_SETFL, O_NONBLOCK);
  for (ssize_t got = 0; (got = read(fd, bytes, sizeof(bytes))) > 0; sink->Flush()) {
    text.append(bytes, got);
  }
  return text;
}

class OutputSinkTest : public ::testing::Test {
 protected:
  OutputSinkTest() { signal(SIGPIPE, SIG_IGN); }

  static void ExpectThatNothingBlocks(int read_fd, int write_fd) {
    OutputSink sink(write_fd);
    std::string text;
    while (!sink.is_full()) {
      const std::string line(1000, static_cast<char>('a' + text.size() / 1000 % 26));
      sink.Write(line);
      text += line;
    }
    EXPECT_GE(sink.poll_fd(), 0);
    EXPECT_TRUE(ReadAll(read_fd, &sink) == text);
    EXPECT_TRUE(sink.is_empty());
    EXPECT_EQ(sink.poll_fd(), -1);
    EXPECT_EQ(fcntl(write_fd, F_GETFL) & O_NONBLOCK, 0);  // the mode of the stream is not changed
    close(read_fd);
    sink.Write("x");
    EXPECT_TRUE(sink.is_closed());
    EXPECT_TRUE(sink.is_empty());
    close(write_fd);
  }
};

TEST_F(OutputSinkTest, APipeThatIsNotRead) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  ExpectThatNothingBlocks(fds[0], fds[1]);
}

TEST_F(OutputSinkTest, ASocketThatIsNotRead) {
  int fds[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
  ExpectThatNothingBlocks(fds[0], fds[1]);
}

TEST_F(OutputSinkTest, AFileIsWrittenInTheOrderOfItsWriters) {
  const std::string path = testing::TempDir() + "/output_sink";
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  OutputSink sink(fd);
  sink.Write("one ");
  ASSERT_EQ(write(fd, "two ", 4), 4);
  sink.Write("three");
  lseek(fd, 0, SEEK_SET);
  EXPECT_EQ(ReadAll(fd, &sink), "one two three");
  close(fd);
}

}  // namespace
}  // namespace tessera::comm
