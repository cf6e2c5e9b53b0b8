#include "core/posix/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "core/posix/file_descriptor.h"
#include "core/posix/testing/obstacles.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/output_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string folder_;
};

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_F(OutputFileTest, AFileIsMadeAndReplaced) {
  const std::string path = folder_ + "/file";
  EXPECT_TRUE(CheckOutputFile(path).ok());
  EXPECT_EQ(ContentsOf(path), "");
  EXPECT_TRUE(WriteOutputFile(path, "a long text").ok());
  EXPECT_TRUE(CheckOutputFile(path).ok());
  EXPECT_EQ(ContentsOf(path), "a long text");
  EXPECT_TRUE(WriteOutputFile(path, "short").ok());
  EXPECT_EQ(ContentsOf(path), "short");
  fs::create_symlink("file", folder_ + "/link");
  EXPECT_TRUE(WriteOutputFile(folder_ + "/link", "by an own link").ok());
  EXPECT_EQ(ContentsOf(path), "by an own link");
}

TEST_F(OutputFileTest, ErrorsNameThePath) {
  for (const std::string& path : {folder_, folder_ + "/none/file"}) {
    for (const absl::Status& status : {CheckOutputFile(path), WriteOutputFile(path, "text")}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr("cannot write " + path));
    }
  }
  EXPECT_THAT(std::string(WriteOutputFile("/dev/full", "text").message()),
              HasSubstr("cannot write /dev/full: No space left"));
}

TEST_F(OutputFileTest, DevicesAreWritten) {
  for (const char* path : {"/dev/null", "/dev/stdout", "/dev/fd/1"}) {
    EXPECT_TRUE(CheckOutputFile(path).ok()) << CheckOutputFile(path);
    // A standard output that is a socket cannot be opened again.
    const absl::Status written = WriteOutputFile(path, "");
    EXPECT_TRUE(written.ok() || !fs::is_fifo(path)) << written;
  }
}

// Regression: open(2) waited for a reader, and a signal did not end that.
TEST_F(OutputFileTest, AFifoIsNotWaitedFor) {
  const std::string path = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_TRUE(CheckOutputFile(path).ok()) << "a reader may come";
  EXPECT_EQ(WriteOutputFile(path, "text").message(),
            "cannot write " + path + ": it is a FIFO, and no process reads it");
  const FileDescriptor reader(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(reader.is_open());
  EXPECT_TRUE(CheckOutputFile(path).ok());
  EXPECT_TRUE(WriteOutputFile(path, "text").ok());
  char text[8];
  EXPECT_EQ(read(reader.get(), text, sizeof(text)), 4);
}

TEST_F(OutputFileTest, LinksOfOtherUsersAreNotFollowed) {
  if (!MayActAsOthers()) GTEST_SKIP() << "only root can make files of other users";
  const std::string link = folder_ + "/link";
  std::ofstream(folder_ + "/victim") << "mine";
  fs::create_symlink("victim", link);
  ASSERT_EQ(lchown(link.c_str(), kOtherUser, kOtherUser), 0);
  for (const absl::Status& status : {CheckOutputFile(link), WriteOutputFile(link, "text")}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), HasSubstr(link + ": it is a symbolic link of user"));
  }
  EXPECT_EQ(ContentsOf(folder_ + "/victim"), "mine");
}

}  // namespace
}  // namespace tessera
