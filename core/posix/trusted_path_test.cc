#include "core/posix/trusted_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "core/posix/program_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr uid_t kRoot = 0, kUser = 1000, kOther = 1001;
constexpr gid_t kOurs = 100, kTheirs = 200;
constexpr mode_t kSticky = S_ISVTX;

PathEntry Folder(const std::string& path, uid_t owner, gid_t group, mode_t mode) {
  return {path, owner, group, S_IFDIR | mode};
}
PathEntry File(uid_t owner, gid_t group, mode_t mode) {
  return {"/a/b/x.so", owner, group, S_IFREG | mode};
}

// Checks the file /a/b/x.so for a user who is in one group.
std::string Fault(const PathEntry& folder, const PathEntry& file,
                  const std::set<std::string>& folders_of_program = {}) {
  const TrustedWriters trusted = {{kRoot, kUser}, {0, kOurs}, folders_of_program};
  const absl::Status status = CheckWriters(
      {Folder("/", kRoot, 0, 0755), Folder("/a", kRoot, 0, 0755), folder, file}, trusted);
  EXPECT_EQ(status.ok(), status.message().empty());
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  return std::string(status.message());
}

std::string FaultOfFolder(uid_t owner, gid_t group, mode_t mode) {
  return Fault(Folder("/a/b", owner, group, mode), File(kUser, kOurs, 0644));
}
std::string FaultOfFile(uid_t owner, gid_t group, mode_t mode) {
  return Fault(Folder("/a/b", kUser, kOurs, 0755), File(owner, group, mode));
}

TEST(CheckWritersTest, TheUserAndRootMayOwnAndWrite) {
  for (const uid_t owner : {kRoot, kUser}) {
    EXPECT_EQ(FaultOfFolder(owner, kTheirs, 0755), "");
    EXPECT_EQ(FaultOfFile(owner, kTheirs, 0755), "");
    for (const gid_t group : {gid_t{0}, kOurs}) {
      EXPECT_EQ(FaultOfFolder(owner, group, 0775), "");
      EXPECT_EQ(FaultOfFile(owner, group, 0664), "");
    }
  }
}

TEST(CheckWritersTest, AnotherOwnerIsNamed) {
  EXPECT_EQ(FaultOfFolder(kOther, kOurs, 0755),
            "user 1001, who owns it, can change the folder /a/b, and with it the code that runs "
            "here: use a copy in a folder of your own");
  EXPECT_EQ(FaultOfFile(kOther, kOurs, 0400),
            "user 1001, who owns it, can change the file /a/b/x.so, and with it the code that runs "
            "here: use a copy in a folder of your own");
}

TEST(CheckWritersTest, WhatEveryUserCanWriteIsNamed) {
  EXPECT_EQ(FaultOfFolder(kUser, kOurs, 0777),
            "every user can change the folder /a/b, and with it the code that runs here: run "
            "`chmod o-w /a/b`, or use a copy in a folder of your own");
  EXPECT_THAT(FaultOfFile(kRoot, 0, 0646), HasSubstr("every user can change the file /a/b/x.so"));
}

TEST(CheckWritersTest, WhatAnotherGroupCanWriteIsNamed) {
  EXPECT_EQ(FaultOfFolder(kRoot, kTheirs, 02775),
            "group 200, of which you are no member, can change the folder /a/b, and with it the "
            "code that runs here: run `chmod g-w /a/b`, or use a copy in a folder of your own");
  EXPECT_THAT(FaultOfFile(kUser, kTheirs, 0664), HasSubstr("group 200"));
}

TEST(CheckWritersTest, TheStickyBitKeepsEntriesOfOthersInAFolder) {
  EXPECT_EQ(FaultOfFolder(kRoot, 0, kSticky | 0777), "");
  EXPECT_EQ(FaultOfFolder(kUser, kTheirs, kSticky | 0777), "");
  EXPECT_THAT(FaultOfFolder(kOther, 0, kSticky | 0777), HasSubstr("user 1001"));
  // It means nothing for a file, nor for an entry that another user has put there.
  EXPECT_THAT(FaultOfFile(kUser, kOurs, kSticky | 0666), HasSubstr("every user"));
  EXPECT_THAT(Fault(Folder("/a/b", kRoot, 0, kSticky | 0777), File(kOther, kOurs, 0644)),
              HasSubstr("user 1001, who owns it, can change the file"));
}

TEST(CheckWritersTest, FoldersAboveTheProgramAreTrustedAsTheyAre) {
  const PathEntry open = Folder("/a/b", kOther, kTheirs, 0777);
  EXPECT_EQ(Fault(open, File(kUser, kOurs, 0644), {"/", "/a", "/a/b"}), "");
  EXPECT_THAT(Fault(open, File(kUser, kOurs, 0646), {"/", "/a", "/a/b"}), HasSubstr("the file"));
  EXPECT_THAT(Fault(open, File(kUser, kOurs, 0644), {"/", "/a"}), HasSubstr("/a/b"));
}

// The rest is about real files.
class TrustedPathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::canonical(testing::TempDir()) / "trusted_path_test";
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "inner");
    chmod((folder_ / "inner").c_str(), 0755);
    std::ofstream(File()) << "text";
    chmod(File().c_str(), 0644);
  }

  std::string File() const { return (folder_ / "inner" / "x.so").string(); }

  fs::path folder_;
};

TEST_F(TrustedPathTest, EntriesBeginAtTheRootFolder) {
  const auto entries = EntriesOfPath(File());
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->front().path, "/");
  EXPECT_EQ((*entries)[entries->size() - 2].path, (folder_ / "inner").string());
  EXPECT_EQ(entries->back().path, File());
  EXPECT_EQ(entries->back().owner, geteuid());
  EXPECT_EQ(entries->back().mode, S_IFREG | 0644);
  EXPECT_TRUE(absl::IsNotFound(EntriesOfPath(File() + ".none").status()));
}

TEST_F(TrustedPathTest, AFileOfTheUserIsTrustedUntilOthersCanWriteAFolder) {
  EXPECT_TRUE(CheckTrustedPath(File()).ok()) << CheckTrustedPath(File());
  EXPECT_TRUE(CheckTrustedPath(ProgramPath()).ok()) << CheckTrustedPath(ProgramPath());
  chmod((folder_ / "inner").c_str(), 0777);
  EXPECT_THAT(CheckTrustedPath(File()).message(),
              HasSubstr("every user can change the folder " + (folder_ / "inner").string()));
  chmod((folder_ / "inner").c_str(), 01777);
  EXPECT_TRUE(CheckTrustedPath(File()).ok()) << CheckTrustedPath(File());
}

TEST_F(TrustedPathTest, AFileOfAnotherUserIsNot) {
  constexpr uid_t kNobody = 65534;
  if (chown(File().c_str(), kNobody, kNobody) != 0) {
    GTEST_SKIP() << "needs root, to give a file to another user";
  }
  EXPECT_THAT(CheckTrustedPath(File()).message(),
              HasSubstr("user 65534, who owns it, can change the file " + File()));
  ASSERT_EQ(chown(File().c_str(), 0, kNobody), 0);
  EXPECT_TRUE(CheckTrustedPath(File()).ok()) << CheckTrustedPath(File());
  chmod(File().c_str(), 0664);
  EXPECT_THAT(CheckTrustedPath(File()).message(), HasSubstr("group 65534"));
}

}  // namespace
}  // namespace tessera
