#include "core/posix/replaced_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace tessera {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

class ReplacedFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/replaced_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ + "/rows.tsv";
  }
  void TearDown() override { fs::remove_all(folder_); }

  int Entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }

  std::string folder_, path_;
};

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_F(ReplacedFileTest, AFileAppearsWithAllOfItsContents) {
  auto file = ReplacedFile::Begin(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(fs::exists(path_));
  ASSERT_TRUE((*file)->Finish("all\n").ok());
  EXPECT_EQ(ContentsOf(path_), "all\n");
  file->reset();
  EXPECT_EQ(Entries(), 1);
}

TEST_F(ReplacedFileTest, AFileThatIsNotFinishedLeavesWhatWasThere) {
  std::ofstream(path_) << "former";
  {
    const auto file = ReplacedFile::Begin(path_);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(Entries(), 2);
  }
  EXPECT_EQ(ContentsOf(path_), "former");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(ReplacedFileTest, AReplacedFileKeepsItsPermissionsAndTheLinkToIt) {
  std::ofstream(path_) << "former";
  chmod(path_.c_str(), 0640);
  fs::create_symlink("rows.tsv", folder_ + "/link");
  const auto file = ReplacedFile::Begin(folder_ + "/link");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Finish("new").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ + "/link"));
  EXPECT_EQ(ContentsOf(path_), "new");
  struct stat info;
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(ReplacedFileTest, AFifoIsWrittenInItsPlace) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const auto file = ReplacedFile::Begin(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(std::string((*file)->Finish("text").message()), HasSubstr("no process reads it"));
  std::string read;
  std::thread reader([&] { read = ContentsOf(path_); });
  while (!(*file)->Finish("text").ok()) usleep(1000);
  reader.join();
  EXPECT_EQ(read, "text");
}

TEST_F(ReplacedFileTest, ErrorsNameThePath) {
  for (const std::string& path :
       {folder_, folder_ + "/none/file", path_ + "/", std::string("/proc/rows.tsv")}) {
    EXPECT_THAT(std::string(ReplacedFile::Begin(path).status().message()),
                HasSubstr("cannot write " + path));
  }
  EXPECT_EQ(Entries(), 0);
}

}  // namespace
}  // namespace tessera
