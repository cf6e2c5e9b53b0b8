#include "core/posix/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "core/posix/testing/obstacles.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A folder below /tmp: its path is short enough for a socket, and other users may enter it.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/folder_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    path_ = name;
    ASSERT_EQ(chmod(name, 0755), 0);
    fs::create_directories(path_ + "/own");
    MakeVictim(path_ + "/victim");
    before_ = Snapshot(path_ + "/victim");
  }
  void TearDown() override {
    EXPECT_EQ(Snapshot(path_ + "/victim"), before_);
    fs::remove_all(path_);
  }

  Folder OpenOwn() const {
    auto folder = Folder::Open(path_ + "/own");
    EXPECT_TRUE(folder.ok()) << folder.status();
    return *std::move(folder);
  }

  std::string path_;
  std::string before_;
};

std::string Message(const absl::Status& status) { return std::string(status.message()); }

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Runs `body` as another user than root.
void AsUser(uid_t user, const std::function<void()>& body) {
  ASSERT_EQ(seteuid(user), 0);
  body();
  ASSERT_EQ(seteuid(0), 0);
}

constexpr uid_t kUser = 65533;

TEST_F(FolderTest, FilesAreCreatedReadExtendedRenamedAndRemoved) {
  const Folder folder = OpenOwn();
  {
    const auto file = folder.CreateFile("new");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(write(file->get(), "12345", 5), 5);
  }
  EXPECT_EQ(folder.CreateFile("new").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*folder.ReadStart("new", 3), "123");
  EXPECT_EQ(*folder.ReadStart("new", 100), "12345");
  {
    const auto file = folder.OpenToExtend("new");
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(write(file->get(), "6", 1), 1);
  }
  EXPECT_TRUE(folder.OpenToExtend("other").ok());
  EXPECT_TRUE(folder.Rename("new", "other").ok());
  EXPECT_EQ(ContentsOf(folder.PathOf("other")), "123456");
  EXPECT_FALSE(folder.Has("new"));
  const auto below = folder.OpenOrCreateFolder("below");
  ASSERT_TRUE(below.ok()) << below.status();
  EXPECT_TRUE(folder.OpenOrCreateFolder("below").ok());
  EXPECT_EQ(folder.CreateFolder("below").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(below->CreateFile("file").ok());
  EXPECT_THAT(*folder.List(), ElementsAre("below", "other"));
  EXPECT_TRUE(folder.Exchange("below", "other").ok());
  EXPECT_TRUE(folder.RemoveFile("below").ok());
  EXPECT_FALSE(folder.RemoveFolder("other").ok()) << "it is not empty";
  EXPECT_TRUE(below->RemoveFile("file").ok()) << "the folder is found by its descriptor";
  EXPECT_TRUE(folder.RemoveFolder("other").ok());
  EXPECT_TRUE(folder.Sync().ok());
  EXPECT_THAT(*folder.List(), ElementsAre());
}

TEST_F(FolderTest, NamesAreNoPaths) {
  const Folder folder = OpenOwn();
  for (const char* name : {"", ".", "..", "a/b", "/etc/passwd", "../victim"}) {
    EXPECT_FALSE(folder.CreateFile(name).ok()) << name;
    EXPECT_FALSE(folder.OpenToRead(name).ok()) << name;
    EXPECT_FALSE(folder.OpenToExtend(name).ok()) << name;
    EXPECT_FALSE(folder.OpenFolder(name).ok()) << name;
    EXPECT_FALSE(folder.OpenOrCreateFolder(name).ok()) << name;
    EXPECT_FALSE(folder.RemoveFile(name).ok()) << name;
    EXPECT_FALSE(folder.RemoveFolder(name).ok()) << name;
    EXPECT_FALSE(folder.Rename(name, "a").ok()) << name;
  }
}

// Regression: files were opened by their paths, so links were followed and a FIFO was waited for.
TEST_F(FolderTest, NothingPreparedIsWrittenThrough) {
  const Folder folder = OpenOwn();
  for (const Obstacle obstacle : AllObstacles()) {
    SCOPED_TRACE(NameOf(obstacle));
    Put(obstacle, folder.PathOf("entry"), path_ + "/victim");
    EXPECT_EQ(folder.CreateFile("entry").status().code(), absl::StatusCode::kAlreadyExists);
    const absl::Status extended = folder.OpenToExtend("entry").status();
    EXPECT_EQ(extended.code(), absl::StatusCode::kInvalidArgument) << extended;
    EXPECT_THAT(Message(extended), HasSubstr(folder.PathOf("entry") + " is a"));
    EXPECT_THAT(Message(extended), HasSubstr("move it away"));
    const bool opens = obstacle == Obstacle::kFolder;
    EXPECT_EQ(folder.OpenFolder("entry").ok(), opens);
    EXPECT_EQ(folder.OpenOrCreateFolder("entry").ok(), opens);
    EXPECT_EQ(Folder::OpenBelow(folder.PathOf("entry"), 1).ok(), opens);
    // The entry itself is replaced or removed, not what it leads to.
    ASSERT_TRUE(folder.CreateFile("file").ok());
    EXPECT_EQ(folder.Rename("file", "entry").ok(), !opens);
    EXPECT_EQ(folder.RemoveFile("entry").ok(), !opens);
    fs::remove_all(path_ + "/own/entry");
    fs::remove_all(path_ + "/own/file");
  }
}

TEST_F(FolderTest, OnlyRegularFilesAreRead) {
  const Folder folder = OpenOwn();
  for (const Obstacle obstacle : AllObstacles()) {
    SCOPED_TRACE(NameOf(obstacle));
    Put(obstacle, folder.PathOf("entry"), path_ + "/victim");
    // A link of this user's is followed: Bazel makes folders of them.
    const bool reads = obstacle == Obstacle::kLink || obstacle == Obstacle::kHardLink;
    EXPECT_EQ(folder.OpenToRead("entry").ok(), reads) << folder.OpenToRead("entry").status();
    EXPECT_EQ(folder.ReadStart("entry", 5).ok(), reads);
  }
  EXPECT_EQ(folder.OpenToRead("none").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FolderTest, TheFolderItselfMayBeALinkOfThisUser) {
  fs::create_symlink("own", path_ + "/first");
  fs::create_symlink(path_ + "/first/", path_ + "/second");
  fs::create_symlink("circle", path_ + "/circle");
  fs::create_symlink("none", path_ + "/dangling");
  for (const char* name : {"/first", "/second", "/second/", "/own/.", "/victim/../own//"}) {
    EXPECT_TRUE(Folder::Open(path_ + name).ok()) << Folder::Open(path_ + name).status();
  }
  for (const char* name : {"/circle", "/dangling", "/none", "/victim/file"}) {
    const absl::Status status = Folder::Open(path_ + name).status();
    EXPECT_THAT(Message(status), HasSubstr("cannot open the folder " + path_ + name));
  }
  EXPECT_EQ(Folder::Open(path_ + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Folder::Open("").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Folder::Open("/")->PathOf("tmp"), "/tmp");
}

TEST_F(FolderTest, LinksOfOtherUsersAreNotFollowed) {
  if (!MayActAsOthers()) GTEST_SKIP() << "only root can make files of other users";
  fs::create_symlink("own", path_ + "/link");
  fs::create_symlink("../victim/file", path_ + "/own/link");
  ASSERT_EQ(lchown((path_ + "/link").c_str(), kOtherUser, kOtherUser), 0);
  ASSERT_EQ(lchown((path_ + "/own/link").c_str(), kOtherUser, kOtherUser), 0);
  const absl::Status folder = Folder::Open(path_ + "/link").status();
  EXPECT_EQ(folder.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Message(folder), HasSubstr(path_ + "/link is a symbolic link of user 65532"));
  const absl::Status file = OpenOwn().OpenToRead("link").status();
  EXPECT_EQ(file.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Message(file), HasSubstr("/own/link is a symbolic link of user 65532"));
}

TEST_F(FolderTest, FoldersOfOtherUsersAreRefused) {
  if (!MayActAsOthers()) GTEST_SKIP() << "only root can make files of other users";
  const std::string own = path_ + "/own";
  ASSERT_EQ(chmod(own.c_str(), 0777), 0);
  ASSERT_EQ(chown(own.c_str(), kOtherUser, kOtherUser), 0);
  EXPECT_TRUE(OpenOwn().CheckOwner().ok()) << "root may use any folder";
  EXPECT_THAT(OpenOwn().OthersWhoCanWrite(),
              HasSubstr("every user of the host can write in " + own));
  AsUser(kUser, [&] {
    const absl::Status status = OpenOwn().CheckOwner();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(Message(status), HasSubstr(own + " belongs to user 65532, and this is user 65533"));
    EXPECT_THAT(*OpenOwn().List(), ElementsAre()) << "nothing is left behind";
  });
  ASSERT_EQ(chmod(own.c_str(), 0755), 0);
  EXPECT_THAT(OpenOwn().OthersWhoCanWrite(), HasSubstr("belongs to user 65532"));
  AsUser(kOtherUser, [&] { EXPECT_TRUE(OpenOwn().CheckOwner().ok()); });
  ASSERT_EQ(chown(own.c_str(), 0, 0), 0);
  AsUser(kUser, [&] { EXPECT_TRUE(OpenOwn().CheckOwner().ok()) << "root's"; });
  EXPECT_EQ(OpenOwn().OthersWhoCanWrite(), "");
}

TEST_F(FolderTest, FilesOfOtherUsersAreNotWrittenInTheirPlace) {
  if (!MayActAsOthers()) GTEST_SKIP() << "only root can make files of other users";
  const std::string file = path_ + "/own/file";
  std::ofstream(file) << "theirs";
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  ASSERT_EQ(chown(file.c_str(), kOtherUser, kOtherUser), 0);
  ASSERT_EQ(chown((path_ + "/own").c_str(), kUser, kUser), 0);
  AsUser(kUser, [&] {
    const absl::Status status = OpenOwn().OpenToExtend("file").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(Message(status), HasSubstr(file + " belongs to user 65532"));
  });
  EXPECT_TRUE(OpenOwn().OpenToExtend("file").ok()) << "as root";
}

TEST_F(FolderTest, OneProcessAtATimeHoldsTheLock) {
  const Folder folder = OpenOwn();
  auto lock = folder.Lock();
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_EQ(folder.Lock().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(OpenOwn().Lock().status().code(), absl::StatusCode::kUnavailable);
  lock->Close();
  EXPECT_TRUE(folder.Lock().ok());

  // The system releases the lock of a process that has ended.
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto held = folder.Lock();
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(folder.Lock().ok());
}

// The umask alone decides who can read what a run saves.
TEST_F(FolderTest, TheUmaskDecidesThePermissions) {
  for (const mode_t mask : {0077, 0022, 0002}) {
    const Folder folder = OpenOwn();
    const mode_t before = umask(mask);
    EXPECT_TRUE(folder.CreateFile("created").ok());
    EXPECT_TRUE(folder.OpenToExtend("extended").ok());
    EXPECT_TRUE(folder.CreateFolder("folder").ok());
    umask(before);
    struct stat info;
    for (const char* name : {"created", "extended", "folder"}) {
      ASSERT_EQ(stat(folder.PathOf(name).c_str(), &info), 0);
      EXPECT_EQ(info.st_mode & 0777, (name[0] == 'f' ? 0777u : 0666u) & ~mask) << name;
      fs::remove_all(folder.PathOf(name));
    }
  }
}

}  // namespace
}  // namespace tessera
